"""Principals and their keys."""
