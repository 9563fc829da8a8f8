"""``talos user``, ``talos key``, ``talos quota`` and ``talos bill``."""
