"""Structured tables: records, rules of change, rates and storage accounts."""
