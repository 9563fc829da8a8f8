"""Topics, principals, permissions (``authorize``) and quotas."""
