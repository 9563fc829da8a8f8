"""What the servers of a cluster send each other: proofs, forwarded requests, internal calls."""
