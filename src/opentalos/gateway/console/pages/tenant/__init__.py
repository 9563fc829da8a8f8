"""Pages of a tenant: quotas, principals and their keys, the audit log and encryption."""
