"""Frozen values, limits and errors that every layer shares; standard library only."""
