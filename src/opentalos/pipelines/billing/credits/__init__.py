"""Credits and refunds: read from a file, applied once by their ids."""
