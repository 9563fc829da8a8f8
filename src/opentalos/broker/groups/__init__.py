"""Consumer groups: workers, partition leases, checkpoints, lag, resets."""
