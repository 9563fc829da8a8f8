"""``talos pipeline`` and ``talos query``."""
