"""Periods of time that tables are read by: months of invoices, whole days."""
