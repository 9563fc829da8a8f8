"""One shard of a table: claim, groups of mutations, rows, indexes."""
