"""Messages: put, get, offsets, preview, and the topics of the service itself."""
