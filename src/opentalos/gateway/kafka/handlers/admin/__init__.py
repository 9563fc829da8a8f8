"""Administration: topics, their settings and permissions."""
