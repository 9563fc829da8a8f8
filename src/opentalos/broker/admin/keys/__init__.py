"""Keys of principals: when they end, and when they were last used."""
