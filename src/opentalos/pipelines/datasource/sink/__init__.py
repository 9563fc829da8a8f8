"""Writes of ``format("talos")``."""
