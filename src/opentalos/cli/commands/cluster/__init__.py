"""``talos cluster``."""
