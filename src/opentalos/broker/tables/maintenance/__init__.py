"""Background work on tables: expiry, orphans, storage accounts, creations and drops."""
