"""The commands, one folder per resource."""
