"""Troubles: faults that follow from the input, the file or the state of the machine, not from luck.

A commit that contains a poisonous message always fails, whoever sends it and however often. The
files of a hanging partition answer nothing until the hang ends. An exhausted machine has no threads
or descriptors, so every call fails before it has an effect. And a port may raise what is no port
error: ``InjectedError`` marks such exceptions, so that a log line about one is no surprise.
"""

import errno
import random
from collections.abc import Sequence

from opentalos.model.errors import OutcomeUnknown, StorageFull, StoreUnavailable
from opentalos.testing.simulation.loop import SimulationLoop
from opentalos.testing.simulation.stores.faults import FileFaults


class InjectedError(Exception):
    """An exception that a simulated store raised although its port does not allow it."""


class InjectedRuntimeError(InjectedError, RuntimeError):
    """As a thread pool raises it."""


class InjectedOSError(InjectedError, OSError):
    """As the operating system raises it."""


class InjectedKeyError(InjectedError, KeyError):
    """As a defect in a library raises it."""


class InjectedEncodingError(InjectedError, ValueError):
    """As a codec raises it."""


# What a message's id begins with, and what storage does with a commit that contains it.
TOO_LARGE, OVER_QUOTA, UNENCODABLE = "toolarge", "overquota", "unencodable"
POISONS = (TOO_LARGE, OVER_QUOTA, UNENCODABLE)


class Troubles:
    """The troubles of one disk; random numbers come from a generator of their own."""

    def __init__(self, loop: SimulationLoop, rng: random.Random) -> None:
        self._loop, self.rng = loop, rng
        self.exhausted = False  # no thread and no descriptor is left
        self.hanging: dict[str, float] = {}  # folders, with the loop time at which each ends
        self.healed = False

    def check_machine(self, faults: FileFaults) -> None:
        """Raises: StoreUnavailable or InjectedError: nothing was done."""
        if self.healed:
            return
        if self.exhausted:
            self._raise_exhaustion(faults)
        if faults.raises and self.rng.random() < faults.raises:
            self._raise_foreign()

    def hang_s(self, path: str) -> float:
        """How long a call on the path gets no answer."""
        if self.healed or not self.hanging:
            return 0.0
        now_s = self._loop.time()
        return max(
            (
                until_s - now_s
                for folder, until_s in self.hanging.items()
                if path.startswith(f"{folder}/") and until_s > now_s
            ),
            default=0.0,
        )

    def poison_in(self, data: bytes, faults: FileFaults) -> tuple[str, int]:
        """The poison that a commit contains and the bytes before it; ``("", 0)`` if none."""
        if self.healed or not faults.poison:
            return "", 0
        found = [(at, kind) for kind in POISONS if (at := data.find(f"{kind}.".encode())) >= 0]
        return (min(found)[1], min(found)[0]) if found else ("", 0)

    def _raise_exhaustion(self, faults: FileFaults) -> None:
        if faults.foreign and self.rng.random() < faults.foreign:
            if self.rng.random() < 0.5:
                raise InjectedRuntimeError("simulated: can't start new thread")
            raise InjectedOSError(errno.EMFILE, "simulated: too many open files")
        raise StoreUnavailable("simulated: no thread or descriptor is left")

    def _raise_foreign(self) -> None:
        kinds: Sequence[InjectedError] = (
            InjectedRuntimeError("simulated: no port error"),
            InjectedOSError(errno.EIO, "simulated: no port error"),
            InjectedKeyError("simulated: no port error"),
        )
        raise self.rng.choice(kinds)


def poison_error(kind: str, path: str) -> Exception:
    """What a commit with a poison raises."""
    text = f"{path}: simulated: a commit that contains {kind!r} always fails"
    if kind == OVER_QUOTA:
        return StorageFull(text)
    if kind == UNENCODABLE:
        return InjectedEncodingError(text)
    return OutcomeUnknown(text)
