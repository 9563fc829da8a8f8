"""TOML settings with the line of each fault."""
