"""Printing of results, messages and progress."""
