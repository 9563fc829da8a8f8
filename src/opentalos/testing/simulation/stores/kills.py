"""Kills at kill points: a server dies right before or right after storage applies its call.

    point = KillPoint
    WorldConfig(tabled=1.0, kills=(Kill(point.WRITE, after=True), Kill(point.CLAIM, after=False)))

kills the server that writes the first row, after the write and before the reply, and then the next
server that claims a shard, before the claim is stored. The nemesis starts a killed server again.
Without ``kills`` a seed draws its own.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from opentalos.model.errors import OutcomeUnknown
from opentalos.testing.simulation.loop import SimulatedProcess
from opentalos.testing.simulation.stores.kill_points import KillPoint

T = TypeVar("T")

DRAWN = 0.5  # probability that a world with a table has such kills
KILLS_MAX = 4  # drawn for one world
NTH_MAX = 6
# Kill points that every such world reaches: a plan must not wait for one that is never reached.
COMMON = (
    KillPoint.CLAIM,
    KillPoint.READ_PENDING,
    KillPoint.ENTRY,
    KillPoint.WRITE,
    KillPoint.ANNOUNCE,
    KillPoint.APPEND,
    KillPoint.CLEAR,
    KillPoint.WRITE_AND_CLEAR,
)


class Kill(NamedTuple):
    """One kill of a plan.

    ``nth``: at which occurrence of the point, counted since the preceding kill (for the first one:
    since faults began). ``after``: the call is durable, and its caller gets no reply.
    """

    point: KillPoint
    after: bool
    nth: int = 1

    def __str__(self) -> str:
        side = "after" if self.after else "before"
        return f"{side} {self.nth}. {self.point.value}"


class Kills:
    """A plan of kills, executed in order while it is ``armed``."""

    def __init__(
        self,
        plan: Sequence[Kill] = (),
        kill: Callable[[SimulatedProcess, Kill], None] = lambda process, kill: None,
    ) -> None:
        self._left, self._kill = list(plan), kill
        self._met = 0  # occurrences of the next kill's point
        self._opening: dict[SimulatedProcess, int] = {}  # shards claimed whose scan is to come
        self.armed = False

    def watches(self, process: SimulatedProcess) -> bool:
        """Whether the kill points of this process's calls have to be reported."""
        return self.armed and bool(self._left) and not process.crashed

    def before(self, process: SimulatedProcess, points: Iterable[KillPoint]) -> None:
        """Storage is about to apply a call. Raises: OutcomeUnknown: its caller was killed."""
        if self._hit(process, points, after=False):
            raise OutcomeUnknown("simulated: the caller was killed")

    def after(self, process: SimulatedProcess, points: Iterable[KillPoint]) -> None:
        """Storage has applied a call and not yet replied."""
        points = list(points)
        if KillPoint.CLAIM in points:
            self._opening[process] = self._opening.get(process, 0) + 1
        self._hit(process, points, after=True)

    def opens(self, process: SimulatedProcess) -> bool:
        """Whether the scan of pending cells that runs now belongs to the opening of a shard."""
        claimed = self._opening.get(process, 0)
        self._opening[process] = max(0, claimed - 1)
        return claimed > 0

    def _hit(self, process: SimulatedProcess, points: Iterable[KillPoint], *, after: bool) -> bool:
        if not self.watches(process) or self._left[0].after is not after:
            return False
        self._met += sum(point is self._left[0].point for point in points)
        if self._met < self._left[0].nth:
            return False
        self._met = 0
        self._kill(process, self._left.pop(0))
        return True


def killable(
    kills: Kills,
    process: SimulatedProcess,
    effect: Callable[[], T],
    points: Callable[[], Iterable[KillPoint]],
) -> T:
    """Apply a call of a process; ``points`` names its kill points."""
    if not kills.watches(process):
        return effect()
    known = [*points()]
    kills.before(process, known)
    done = effect()
    kills.after(process, known)
    return done


def draw_kills(rng: random.Random) -> tuple[Kill, ...]:
    """Kills of a seed, often none; the last one may wait for a point that is never reached."""
    if rng.random() >= DRAWN:
        return ()
    points = [rng.choice(COMMON) for _ in range(rng.randint(1, KILLS_MAX))]
    points.append(rng.choice([*KillPoint]))
    return tuple(Kill(point, rng.random() < 0.5, rng.randint(1, NTH_MAX)) for point in points)
