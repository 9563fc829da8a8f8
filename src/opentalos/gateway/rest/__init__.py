"""REST under /rest/v1: one table of routes, modules by resource; errors as problem documents."""
