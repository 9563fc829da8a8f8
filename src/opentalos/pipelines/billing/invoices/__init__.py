"""Invoices as values, HTML pages and versioned files."""
