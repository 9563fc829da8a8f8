"""REST of principals and quotas."""
