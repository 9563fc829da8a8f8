"""Use cases: one protocol-neutral method per operation, one access decision."""
