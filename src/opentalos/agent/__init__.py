"""The metrics agent of a machine: it sends measurements and pushed values to a topic."""
