"""Usage and price plans into invoices, and the reconciliation of the bill with the log."""
