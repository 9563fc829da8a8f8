"""Replays of structured tables from their streams."""
