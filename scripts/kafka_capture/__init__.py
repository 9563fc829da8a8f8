"""Records what Kafka's clients and a real Kafka say to each other, for tests/golden/kafka."""
