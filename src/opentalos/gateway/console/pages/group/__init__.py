"""Pages of consumer groups: list, progress, reset."""
