"""Price plans and tenants' plans, read from TOML files."""
