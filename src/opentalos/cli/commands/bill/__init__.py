"""``talos bill``."""
