"""Several simulated servers: their network, their sessions and the faults of a cluster."""
