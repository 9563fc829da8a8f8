"""Data keys of tenants: their records, and which key encrypts what is stored next."""
