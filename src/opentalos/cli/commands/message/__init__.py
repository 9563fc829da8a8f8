"""``talos produce``, ``talos consume`` and ``talos bench``."""
