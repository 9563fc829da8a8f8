"""Measurements, usage events and latency sketches."""
