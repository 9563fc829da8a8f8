"""``talos demo`` and ``talos cluster demo``."""
