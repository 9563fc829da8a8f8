"""SimulatedServer: one broker in its own process, reached by calls that may never get a reply."""

import asyncio
import random
import zlib
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from opentalos.adapters.data_key import AesGcmDataKey
from opentalos.broker.broker import Broker, BrokerConfig, EncryptionPlan, open_broker
from opentalos.broker.messaging.messages import PutTarget
from opentalos.model.errors import TalosError
from opentalos.model.identity import Principal
from opentalos.model.message import MessageBlock
from opentalos.testing.simulation.stores.disk import SimulatedDisk
from opentalos.testing.simulation.stores.faults import FileFaults, MetaFaults, RowFaults
from opentalos.testing.simulation.stores.faulty_files import FaultyFileStore
from opentalos.testing.simulation.stores.faulty_meta import FaultyMetaStore
from opentalos.testing.simulation.stores.faulty_rows import FaultyRowStore
from opentalos.testing.simulation.stores.troubles import InjectedError
from opentalos.testing.simulation.world.clock import SimulatedClock

T = TypeVar("T")


class ServerLost(Exception):
    """The connection broke, or no reply came in time: the outcome is unknown."""


class UnansweredBug(Exception):
    """A call ended with an exception that is not a TalosError."""


class InjectedBug(UnansweredBug):
    """The same, because a simulated store raised what its port does not allow."""


class PlainSecretBox:
    """SecretBox without encryption: simulated disks hold no real secrets."""

    def seal(self, secret: bytes, name: str) -> bytes:
        """The secret with its name."""
        return name.encode() + b"\x00" + secret

    def open(self, sealed: bytes, name: str) -> bytes:
        """The secret."""
        return sealed.removeprefix(name.encode() + b"\x00")

    def mac(self, content: bytes) -> bytes:
        """A checksum: nobody forges records of a simulated store."""
        return zlib.crc32(content).to_bytes(4, "big")


# The real cipher, so that a block in a wrong place shows; its bytes depend on the seed alone.
ENCRYPTION = EncryptionPlan(
    boxes=(PlainSecretBox(),), sources=("simulation",), make_key=AesGcmDataKey
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFaults:
    """Faults of the three stores."""

    files: FileFaults = field(default_factory=FileFaults)
    meta: MetaFaults = field(default_factory=MetaFaults)
    rows: RowFaults = field(default_factory=RowFaults)


class SimulatedServer:
    """A broker with its stores and its clock, in a process that can pause and crash.

    A server is started once and ends once, by ``stop`` or ``crash``; a restart is a new instance.
    ``name`` belongs to this incarnation; ``config.server`` may stay the same over restarts. A
    caller that times out leaves its call open, and ``unanswered`` lists the open calls.
    """

    def __init__(
        self,
        disk: SimulatedDisk,
        name: str,
        config: BrokerConfig,
        faults: StoreFaults,
        clock: SimulatedClock,
    ) -> None:
        self.name, self.disk, self.clock = name, disk, clock
        self.process = disk.loop.process(name)
        self.broker = self._compose(config, faults)
        self.ready = False
        self.twice: list[str] = []  # calls whose waiter was called more than once
        self._open: dict[asyncio.Future[Any], str] = {}

    def _compose(self, config: BrokerConfig, faults: StoreFaults) -> Broker:
        files = FaultyFileStore(self.disk, self.process, faults.files)
        rows = FaultyRowStore(self.disk, self.process, faults.rows)
        meta = FaultyMetaStore(self.disk, self.process, faults.meta)
        self._end_session = meta.lose_process
        return open_broker(files=files, meta=meta, rows=rows, clock=self.clock, config=config)

    @property
    def alive(self) -> bool:
        """It has not crashed."""
        return not self.process.crashed

    def unanswered(self) -> list[str]:
        """Calls without a reply so far."""
        return list(self._open.values())

    async def start(self) -> None:
        """Start the broker. Raises: TalosError, ServerLost."""

        async def start(broker: Broker) -> None:
            await broker.start()
            await broker.take_requests()

        await self.call("start", start, timeout_s=None)
        self.ready = True

    async def stop(self) -> None:
        """Shut down the broker cleanly, then end the process."""
        self.ready = False
        try:
            await self.call("close", lambda broker: broker.close(), timeout_s=60.0)
        finally:
            self.crash()

    def crash(self) -> None:
        """End the process at once; the world then damages its files."""
        self.ready = False
        self.process.crash()
        self._end_session()
        for answer in [*self._open]:
            self._settle(answer, None, ServerLost(f"{self.name} crashed"))

    async def call(
        self,
        what: str,
        make: Callable[[Broker], Coroutine[Any, Any, T]],
        *,
        timeout_s: float | None,
    ) -> T:
        """Send one request and return its reply. Raises: TalosError, ServerLost, UnansweredBug."""
        return await self._answered(what, lambda: self._serve(make), timeout_s)

    async def _serve(self, make: Callable[[Broker], Coroutine[Any, Any, T]]) -> T:
        return await make(self.broker)

    async def _answered(
        self, what: str, make: Callable[[], Coroutine[Any, Any, T]], timeout_s: float | None
    ) -> T:
        answer = self._ask(what)

        async def serve() -> None:
            try:
                self._settle(answer, await make(), None)
            except TalosError as error:
                self._settle(answer, None, error)
            except Exception as error:
                injected = isinstance(error, InjectedError)
                bug = InjectedBug if injected else UnansweredBug
                self._settle(answer, None, bug(f"{what}: {error!r}"))
                if not injected:
                    raise

        def begin() -> None:
            self.process.create_task(serve(), what)

        self.process.call_soon(begin)
        value: T = await self._wait(answer, timeout_s)
        return value

    async def put(
        self,
        caller: Principal,
        target: PutTarget,
        blocks: Sequence[MessageBlock],
        *,
        timeout_s: float,
    ) -> int:
        """One put; its base offset or -1. Raises: TalosError, ServerLost, UnansweredBug."""
        answer = self._ask("put")
        answered = False

        def waiter(base_offset: int, error: TalosError | None) -> None:
            nonlocal answered
            if answered:
                self.twice.append(f"put to {target}")
            answered = True
            self._settle(answer, base_offset, error)

        def serve() -> None:
            try:
                self.broker.messages.put(caller, target, blocks, waiter)
            except TalosError as error:
                waiter(-1, error)
            except Exception as error:
                self._settle(answer, None, UnansweredBug(f"put: {error!r}"))
                raise

        self.process.call_soon(serve)
        base_offset: int = await self._wait(answer, timeout_s)
        return base_offset

    def _ask(self, what: str) -> "asyncio.Future[tuple[Any, Exception | None]]":
        answer: asyncio.Future[tuple[Any, Exception | None]] = self.disk.loop.create_future()
        if self.alive:
            self._open[answer] = f"{what} since {self.disk.loop.time():.3f}"
        else:
            answer.set_result((None, ServerLost(f"{self.name} refuses connections")))
        return answer

    def _settle(
        self,
        answer: "asyncio.Future[tuple[Any, Exception | None]]",
        value: object,
        error: Exception | None,
    ) -> None:
        self._open.pop(answer, None)
        if not answer.done():
            answer.set_result((value, error))

    async def _wait(
        self, answer: "asyncio.Future[tuple[Any, Exception | None]]", timeout_s: float | None
    ) -> Any:
        # A caller that times out leaves the call open: the server must still reply to it.
        done, _ = await asyncio.wait({answer}, timeout=timeout_s)
        if not done:
            raise ServerLost(f"{self.name}: no reply within {timeout_s} s")
        value, error = answer.result()
        if error is not None:
            raise error
        return value


def server_rng(seed: int, incarnation: int) -> random.Random:
    """The random numbers of one incarnation, different from those of all others."""
    return random.Random(f"server {seed} {incarnation}")
