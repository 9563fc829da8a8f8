"""Streams of a table: from the outbox in the rows to the topics."""
