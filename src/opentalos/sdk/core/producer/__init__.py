"""Collecting messages: settings, partitioner, accumulator; no I/O."""
