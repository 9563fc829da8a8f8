"""``talos table``."""
