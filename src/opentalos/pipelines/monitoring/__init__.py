"""Measurements into rollups at 10 s, 1 min and 1 h."""
