"""Named leases of tenants: who holds one, and under which epoch."""
