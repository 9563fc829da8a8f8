"""The ports of one server: their gateways, TLS, and the port for clients of Kafka."""
