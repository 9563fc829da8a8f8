"""One shard of a table: its states, its claim, and the task that writes its groups."""
