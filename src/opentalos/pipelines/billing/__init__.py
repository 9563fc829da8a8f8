"""Usage, prices and invoices, and their reconciliation with the log."""
