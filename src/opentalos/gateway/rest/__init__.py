"""REST under /rest/v1: principals, keys, cluster and health; errors as problem documents."""
