"""Reads of several partitions at once, and blocks as other protocols need them."""
