"""Structs and scans of the table client."""
