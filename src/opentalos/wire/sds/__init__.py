"""Structured tables on the wire: values, schemas, changes, signatures."""
