"""REST of messages."""
