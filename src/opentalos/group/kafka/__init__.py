"""Groups of Kafka clients: pure state machines of membership, and their leases in our rows."""
