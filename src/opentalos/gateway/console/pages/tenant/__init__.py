"""Pages of a tenant: quotas, principals."""
