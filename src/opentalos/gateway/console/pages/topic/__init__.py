"""Pages of topics: list, detail, messages, produce."""
