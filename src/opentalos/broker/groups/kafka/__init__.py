"""Use cases of Kafka clients' consumer groups: membership, offsets, what tools show."""
