"""The manifest of a partition: the record that alone gives the right to write."""
