"""``talos agent``."""
