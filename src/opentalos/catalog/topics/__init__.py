"""Topics: records, rules of change, groups and patterns of topics."""
