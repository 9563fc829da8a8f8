"""How commands print results, messages, progress and errors."""
