"""Pages of usage and invoices."""
