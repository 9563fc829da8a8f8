"""REST of the cluster: status, drain, weights."""
