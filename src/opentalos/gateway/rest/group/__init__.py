"""REST of consumer groups and their workers."""
