"""Streams of a table: the outbox and its publishers."""
