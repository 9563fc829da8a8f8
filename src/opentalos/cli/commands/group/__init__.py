"""``talos group``."""
