"""SimulatedNetwork: which servers reach each other and the services that they use.

A place is a server's stable name or one of the services. A cut has a direction: a request may
arrive although its reply does not. Clients are never cut off from a server.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, TypeVar

from opentalos.model.errors import OutcomeUnknown, StoreUnavailable, TalosError
from opentalos.testing.simulation.stores.disk import SimulatedDisk

T = TypeVar("T")

META, FILES, ROWS = "meta", "files", "rows"
SERVICES = (META, FILES, ROWS)
ANY_PLACE = "*"
CALL_TIMEOUT_S = 1.5  # a caller without a reply gives up after this time
REFUSED = 0.3  # probability that the caller of an unsent call knows that it was not sent


class Way(NamedTuple):
    """One direction between two places."""

    source: str
    target: str

    @property
    def back(self) -> "Way":
        """The other direction."""
        return Way(self.target, self.source)


class SimulatedNetwork:
    """Cuts and delays. Cuts are counted, so they may overlap; who starts one also ends it."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self._cuts: Counter[Way] = Counter()
        self._delays_s: dict[Way, float] = {}

    def cut(self, ways: Iterable[Way]) -> None:
        """Drop everything that is sent these ways from now on."""
        self._cuts.update(ways)

    def mend(self, ways: Iterable[Way]) -> None:
        """End one ``cut`` of each way."""
        self._cuts.subtract(ways)

    def slow(self, way: Way, delay_s: float) -> None:
        """Delay everything that is sent this way; 0 ends the delay."""
        self._delays_s[way] = delay_s

    def mend_all(self) -> None:
        """End all cuts and delays."""
        self._cuts.clear()
        self._delays_s.clear()

    def passes(self, way: Way) -> bool:
        """Whether something sent now arrives."""
        source, target = way
        wild = (way, Way(ANY_PLACE, target), Way(source, ANY_PLACE))
        return not any(self._cuts[each] > 0 for each in wild)

    def delay_s(self, way: Way) -> float:
        """The delay of what is sent now."""
        return self._delays_s.get(way, 0.0)

    def down(self, service: str) -> bool:
        """Whether no server reaches the service."""
        return self._cuts[Way(ANY_PLACE, service)] > 0


class Link:
    """One server's connection to one place."""

    def __init__(self, network: SimulatedNetwork, way: Way) -> None:
        self.network, self.way = network, way

    def up(self) -> bool:
        """Whether a call and its reply would arrive now."""
        return self.network.passes(self.way) and self.network.passes(self.way.back)

    async def call(self, effect: Callable[[], Awaitable[T]], *, write: bool) -> T:
        """Send a call, apply ``effect`` at the other place, and return the reply.

        Raises: what ``effect`` raised. StoreUnavailable: a read that failed, or a write that was
            certainly not sent. OutcomeUnknown: a write whose reply was lost.
        """
        network, disk, text = self.network, self.network.disk, f"{self.way.target} is unreachable"
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
