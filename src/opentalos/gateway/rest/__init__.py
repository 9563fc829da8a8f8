"""REST under /rest/v1: principals, keys and health; errors as problem documents."""
