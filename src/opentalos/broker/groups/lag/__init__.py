"""Lag of consumer groups: sums over topics of any width, ages, and samples for metrics."""
