"""Reads of ``format("talos")``."""
