"""Pages of the cluster: servers, the hash ring, weights."""
