"""Clock on the operating system's wall clock and random source."""

import os
import time

_NS_PER_MS = 1_000_000


class SystemClock:
    """The machine's wall clock and its secure random source."""

    def wall_ms(self) -> int:
        """Unix time in milliseconds; follows the machine's clock, also when that jumps."""
        return time.time_ns() // _NS_PER_MS

    def token(self, bytes_count: int) -> bytes:
        """Random bytes, fit for secrets and unique ids."""
        return os.urandom(bytes_count)
