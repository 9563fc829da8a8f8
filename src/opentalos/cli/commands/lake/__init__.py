"""``talos lake``."""
