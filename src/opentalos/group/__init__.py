"""Consumer groups: worker and partition leases, generations, checkpoints."""
