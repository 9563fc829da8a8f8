"""Clients of a topic with the records of Kafka's producers."""
