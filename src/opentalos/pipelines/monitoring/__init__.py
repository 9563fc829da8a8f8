"""Measurements into rollups."""
