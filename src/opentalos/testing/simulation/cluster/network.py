"""SimulatedNetwork: who reaches whom, between servers and to the services that they stand on.

A place is a server's stable name or one of the services. A cut has a direction: what a server sends
may arrive although the answer does not. A server's clients are never cut off from it.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, TypeVar

from opentalos.model.errors import OutcomeUnknown, StoreUnavailable, TalosError
from opentalos.testing.simulation.stores.disk import SimulatedDisk

T = TypeVar("T")

META, FILES, ROWS = "meta", "files", "rows"
SERVICES = (META, FILES, ROWS)
EVERYBODY = "*"
CALL_TIMEOUT_S = 1.5  # a caller that hears nothing for so long gives up
REFUSED = 0.3  # of calls that cannot be sent: their caller knows that they were not


class Way(NamedTuple):
    """One direction between two places."""

    source: str
    target: str

    @property
    def back(self) -> "Way":
        """The other direction."""
        return Way(self.target, self.source)


class SimulatedNetwork:
    """Cuts and delays; both may overlap, and each is ended by whoever began it."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self._cuts: Counter[Way] = Counter()
        self._delays_s: dict[Way, float] = {}

    def cut(self, ways: Iterable[Way]) -> None:
        """From now on nothing passes these ways."""
        self._cuts.update(ways)

    def mend(self, ways: Iterable[Way]) -> None:
        """End one ``cut`` of each way."""
        self._cuts.subtract(ways)

    def slow(self, way: Way, delay_s: float) -> None:
        """Whatever takes this way arrives so much later; 0: no more."""
        self._delays_s[way] = delay_s

    def mend_all(self) -> None:
        """The network works again."""
        self._cuts.clear()
        self._delays_s.clear()

    def passes(self, way: Way) -> bool:
        """Whether something sent now arrives."""
        source, target = way
        wild = (way, Way(EVERYBODY, target), Way(source, EVERYBODY))
        return not any(self._cuts[each] > 0 for each in wild)

    def delay_s(self, way: Way) -> float:
        """How much later it arrives."""
        return self._delays_s.get(way, 0.0)

    def down(self, service: str) -> bool:
        """Whether nobody reaches the service."""
        return self._cuts[Way(EVERYBODY, service)] > 0


class Link:
    """One server's connection to one place."""

    def __init__(self, network: SimulatedNetwork, way: Way) -> None:
        self.network, self.way = network, way

    def up(self) -> bool:
        """Whether a call and its answer would arrive now."""
        return self.network.passes(self.way) and self.network.passes(self.way.back)

    async def call(self, effect: Callable[[], Awaitable[T]], *, write: bool) -> T:
        """Send, let ``effect`` happen over there, and hear of it.

        Raises: what ``effect`` raised. StoreUnavailable: a read that failed, or a write that was
            certainly not sent. OutcomeUnknown: a write whose answer was lost.
        """
        network, disk, text = self.network, self.network.disk, f"{self.way.target} is out of reach"
        if not network.passes(self.way):
            refused = disk.rng.random() < REFUSED
            await disk.after(disk.rng.random() * CALL_TIMEOUT_S, lambda: None)
            if write and not refused:
                raise OutcomeUnknown(text)
            raise StoreUnavailable(text)
        await self._travel(self.way)
        error: TalosError | None = None
        value: T | None = None
        try:
            value = await effect()
        except TalosError as raised:
            error = raised
        await self._travel(self.way.back)
        if not network.passes(self.way.back):
            await disk.after(CALL_TIMEOUT_S, lambda: None)
            raise OutcomeUnknown(text) if write else StoreUnavailable(text)
        if error is not None:
            raise error
        return value  # type: ignore[return-value]  # None only beside an error, or if T allows it

    async def _travel(self, way: Way) -> None:
        delay_s = self.network.delay_s(way)
        if delay_s > 0:
            await self.network.disk.after(delay_s * self.network.disk.rng.random(), lambda: None)
