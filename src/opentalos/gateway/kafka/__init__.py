"""The Kafka protocol on a port of its own; only translates."""
