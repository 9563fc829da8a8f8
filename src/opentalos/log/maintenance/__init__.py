"""Work beside the data path: sealing, retention, offline verification."""
