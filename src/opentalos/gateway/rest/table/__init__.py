"""REST of structured tables, rows and streams."""
