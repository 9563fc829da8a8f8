"""OpenTalos: a durable, partitioned message queue that speaks the Talos protocol."""

__version__ = "0.1.0"
