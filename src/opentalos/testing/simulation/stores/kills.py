"""Kills at named steps: a server dies right before or right after storage does what it asked for.

    WorldConfig(tabled=1.0, kills=(Kill(Step.WRITE, after=True), Kill(Step.CLAIM, after=False)))

kills the server that writes the first row, after the write and before it hears of it, and then the
next one that claims a shard, before the claim is stored. A killed server is started again by the
nemesis. Without ``kills`` a seed draws its own.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from opentalos.model.errors import OutcomeUnknown
from opentalos.testing.simulation.loop import SimulatedProcess
from opentalos.testing.simulation.stores.kill_points import Step

T = TypeVar("T")

DRAWN = 0.5  # of the worlds with a table have such kills
KILLS_MAX = 4  # that are drawn for one world
NTH_MAX = 6
# Steps that every such world comes to: a plan must not wait for one that never comes.
COMMON = (
    Step.CLAIM,
    Step.LOOK,
    Step.ENTRY,
    Step.WRITE,
    Step.ANNOUNCE,
    Step.APPEND,
    Step.CLEAR,
    Step.WRITE_AND_CLEAR,
)


class Kill(NamedTuple):
    """``nth``: at which occurrence, counted from the kill before on (the first one from the
    beginning of the faults on). ``after``: what the step does is durable, and not answered."""

    step: Step
    after: bool
    nth: int = 1

    def __str__(self) -> str:
        side = "after" if self.after else "before"
        return f"{side} {self.nth}. {self.step.value}"


class Kills:
    """A plan, played one kill after the other, while it is ``armed``."""

    def __init__(
        self,
        plan: Sequence[Kill] = (),
        kill: Callable[[SimulatedProcess, Kill], None] = lambda process, kill: None,
    ) -> None:
        self._left, self._kill = list(plan), kill
        self._met = 0  # occurrences of the next kill's step
        self._opening: dict[SimulatedProcess, int] = {}  # shards that are claimed, not looked at
        self.armed = False

    def watches(self, process: SimulatedProcess) -> bool:
        """Whether a step of this process has to be told."""
        return self.armed and bool(self._left) and not process.crashed

    def before(self, process: SimulatedProcess, steps: Iterable[Step]) -> None:
        """Storage is about to do this. Raises: OutcomeUnknown: nobody is left who asked for it."""
        if self._falls(process, steps, after=False):
            raise OutcomeUnknown("nobody hears this")

    def after(self, process: SimulatedProcess, steps: Iterable[Step]) -> None:
        """Storage has done this, and does not say so to somebody who died."""
        steps = list(steps)
        if Step.CLAIM in steps:
            self._opening[process] = self._opening.get(process, 0) + 1
        self._falls(process, steps, after=True)

    def opens(self, process: SimulatedProcess) -> bool:
        """Whether a scan for pending cells, which is done now, is that of an opening."""
        claimed = self._opening.get(process, 0)
        self._opening[process] = max(0, claimed - 1)
        return claimed > 0

    def _falls(self, process: SimulatedProcess, steps: Iterable[Step], *, after: bool) -> bool:
        if not self.watches(process) or self._left[0].after is not after:
            return False
        self._met += sum(step is self._left[0].step for step in steps)
        if self._met < self._left[0].nth:
            return False
        self._met = 0
        self._kill(process, self._left.pop(0))
        return True


def stepped(
    kills: Kills,
    process: SimulatedProcess,
    effect: Callable[[], T],
    steps: Callable[[], Iterable[Step]],
) -> T:
    """Let storage do ``effect``, which is these steps of the process that asked for it."""
    if not kills.watches(process):
        return effect()
    known = [*steps()]
    kills.before(process, known)
    done = effect()
    kills.after(process, known)
    return done


def draw_kills(rng: random.Random) -> tuple[Kill, ...]:
    """Kills of a seed, often none; the last one may wait for a step that does not come."""
    if rng.random() >= DRAWN:
        return ()
    steps = [rng.choice(COMMON) for _ in range(rng.randint(1, KILLS_MAX))] + [rng.choice([*Step])]
    return tuple(Kill(step, rng.random() < 0.5, rng.randint(1, NTH_MAX)) for step in steps)
