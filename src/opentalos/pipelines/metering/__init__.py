"""Usage events into the lake's table of usage, and its readers."""
