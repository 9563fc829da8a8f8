"""The Kafka protocol: requests, responses and record batches; bytes in, values out."""
