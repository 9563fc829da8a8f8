"""StorageNemesis: rot, wrong clocks, exhaustion and hanging partitions, for ``storage_worlds``.

It runs beside the world's nemesis with random numbers of its own, so a world without these faults
draws the same numbers with and without it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from opentalos.testing.simulation.history import Recorder
from opentalos.testing.simulation.loop import SimulationLoop
from opentalos.testing.simulation.stores.damage.rot import flip_anywhere, rotten_by
from opentalos.testing.simulation.stores.disk import SimulatedDisk
from opentalos.testing.simulation.stores.faults import WorldFaults

TICK_S = 0.5  # mean time between two draws
DAY_MS = 86_400_000
WRONG_DAYS_MAX = 10
HANGING_SHARE = 0.25  # of a tenant's partitions that hang at once


class Stage(Protocol):
    """What it needs of a world."""

    loop: SimulationLoop
    disk: SimulatedDisk
    recorder: Recorder
    faults: WorldFaults

    def set_clocks(self, by_ms: int) -> None:
        """Move the wall clock of every server, now and later."""
        ...

    def crowd(self) -> tuple[str, list[str]]:
        """The tenant whose partitions hang, and their folders."""
        ...


class StorageNemesis:
    """Draws the events until it is cancelled; ``World.heal`` ends what is under way."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self._rng = stage, stage.disk.troubles.rng

    @property
    def idle(self) -> bool:
        """Whether the world has none of these faults."""
        return not any(probability for probability, _ in self._events())

    async def run(self) -> None:
        """Until cancelled."""
        rng = self._rng
        while True:
            await asyncio.sleep(TICK_S * (0.5 + rng.random()))
            for probability, event in self._events():
                if probability and rng.random() < probability * TICK_S:
                    await event()

    def _events(self) -> list[tuple[float, Callable[[], Awaitable[None]]]]:
        faults = self._stage.faults
        return [
            (faults.rot_anywhere, self._rot),
            (faults.step_days, self._step),
            (faults.exhausted, self._exhaust),
            (faults.hanging, self._hang),
        ]

    async def _rot(self) -> None:
        path = flip_anywhere(self._stage.disk)
        if path is not None:
            for found in rotten_by(self._stage.disk, path):
                self._stage.recorder.note("rot", **found._asdict())

    async def _step(self) -> None:
        """All clocks are set days wrong, and right again later, as by a time service."""
        by_ms = drawn_days(self._rng.random())
        self._stage.recorder.note("clock-jump", by_ms=by_ms)
        self._stage.set_clocks(by_ms)
        await asyncio.sleep(self._rng.random() * self._stage.faults.wrong_s)
        self._stage.recorder.note("clock-jump", by_ms=-by_ms)
        self._stage.set_clocks(-by_ms)

    async def _exhaust(self) -> None:
        troubles = self._stage.disk.troubles
        self._stage.recorder.note("exhausted")
        troubles.exhausted = True
        await asyncio.sleep(self._rng.random() * self._stage.faults.exhausted_s)
        troubles.exhausted = False
        self._stage.recorder.note("not-exhausted")

    async def _hang(self) -> None:
        tenant, folders = self._stage.crowd()
        count = max(1, round(len(folders) * HANGING_SHARE))
        if not folders:
            return
        most_s = self._stage.faults.hanging_s
        hang_s = most_s * (0.5 + 0.5 * self._rng.random())
        until_s = self._stage.loop.time() + hang_s
        chosen = self._rng.sample(folders, count)
        self._stage.recorder.note("tenant-fails", tenant=tenant, until_s=until_s, folders=chosen)
        self._stage.disk.troubles.hanging = dict.fromkeys(chosen, until_s)
        await asyncio.sleep(hang_s)


def drawn_days(drawn: float) -> int:
    """Milliseconds of some days ahead or behind, from a number in [0, 1)."""
    return round((2 * drawn - 1) * WRONG_DAYS_MAX * DAY_MS)
