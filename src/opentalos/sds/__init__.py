"""Structured tables over RowStore and their change stream."""
