"""``talos serve``, ``talos config``, ``talos backup``, ``talos restore`` and ``talos log``."""
