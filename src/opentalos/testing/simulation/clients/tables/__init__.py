"""Clients of structured tables."""
