"""``make bench-kafka``: our Kafka port beside Apache Kafka, with Kafka's own clients."""
