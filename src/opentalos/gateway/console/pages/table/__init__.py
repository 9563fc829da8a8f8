"""Pages of structured tables, their rows and streams."""
