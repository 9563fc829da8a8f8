"""SimulatedClock: wall time that follows the virtual loop, with skew and jumps; seeded tokens."""

import random

from opentalos.testing.simulation.loop import SimulationLoop

EPOCH_MS = 1_700_000_000_000  # wall time at the loop's first reading
MS_PER_S = 1_000


class SimulatedClock:
    """The Clock port of one simulated server.

    Args: rng: tokens come from it, so each incarnation of a server needs its own.
        rate: how fast this clock runs against the loop's.
    """

    def __init__(
        self, loop: SimulationLoop, rng: random.Random, *, skew_ms: int = 0, rate: float = 1.0
    ) -> None:
        self._loop, self._rng, self._rate = loop, rng, rate
        self._origin_s = loop.time()
        self._origin_ms = EPOCH_MS + round(self._origin_s * MS_PER_S) + skew_ms

    def wall_ms(self) -> int:
        """Unix time in milliseconds on this server's clock."""
        passed_s = self._loop.time() - self._origin_s
        return self._origin_ms + round(passed_s * self._rate * MS_PER_S)

    def token(self, bytes_count: int) -> bytes:
        """Bytes from the seed."""
        return self._rng.randbytes(bytes_count)

    def jump(self, by_ms: int) -> None:
        """Set the wall clock forward or back."""
        self._origin_ms += by_ms
