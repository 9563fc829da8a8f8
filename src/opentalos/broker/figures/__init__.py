"""Figures of a server: its counters now, and what they were over time."""
