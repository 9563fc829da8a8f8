"""A pure-Python stand-in for the package ``atomic``, which needs a C compiler to install.

The official Talos SDK 3.1.8 uses three things of it: ``AtomicLong(n)``, ``.value`` and
``.get_and_set(n)``. Each is one bytecode-level step under the interpreter's lock here, except
``get_and_set``, which a lock makes one.
"""

import threading


class AtomicLong:
    """A whole number that threads may read and replace."""

    def __init__(self, value: int = 0) -> None:
        self._lock = threading.Lock()
        self.value = value

    def get_and_set(self, value: int) -> int:
        """Store ``value`` and return the one it replaced."""
        with self._lock:
            before, self.value = self.value, value
        return before

    def __repr__(self) -> str:
        return f"AtomicLong({self.value})"
