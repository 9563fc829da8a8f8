"""Topics, permissions, principals, and what owners and operators ask about them."""
