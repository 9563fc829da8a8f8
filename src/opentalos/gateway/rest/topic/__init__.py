"""REST of topics, their permissions and usage."""
