"""The shared journal: one write and one sync for the groups of many partitions."""
