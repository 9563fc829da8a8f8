"""Streams of JSON events over the service's own topics."""
