"""One segment: its file format, how it is written, scanned, indexed and read."""
