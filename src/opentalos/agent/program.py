"""The metrics agent: measures its machine each step, accepts pushed values, puts both to a topic.

``talos agent`` runs it. What the server does not accept waits in a spool on disk.
"""

import asyncio
import contextlib
import logging
import signal
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from opentalos.adapters.io_threads import IoThreads
from opentalos.adapters.machine import MachineUse, look_at_machine, machine_name
from opentalos.adapters.spool import Outbox, Spool, read_last_step, write_last_step
from opentalos.agent.push_port import PushPort, read_push_key
from opentalos.agent.pushed_points import PushedPoints
from opentalos.agent.settings import AgentSettings
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.http.server import HttpServer
from opentalos.model.errors import ConfigError, OutcomeUnknown, TalosError
from opentalos.model.limits import HttpLimits
from opentalos.model.names import METRICS_TOPIC
from opentalos.sdk.aio import Client, SimpleProducer
from opentalos.sdk.core.config import ClientConfig
from opentalos.server.config import parse_address
from opentalos.server.log_setup import set_up_logging
from opentalos.server.measuring.intervals import Intervals
from opentalos.wire.metrics.measurement import Measurement, encode_measurement
from opentalos.wire.metrics.measures import MACHINE

PUSH_PATH: Final = b"/v1/push"
PUT_S: Final = 10.0  # after this time the outcome of a put counts as unknown
_SYSTEM_S: Final = 2.0  # for reading the figures of the operating system
_STOP_S: Final = 1.0  # for the last step, and as much again for writing it to the spool
_LEAVE_S: Final = 5.0  # from the signal to the exit, even if a disk stalls
_ROWS_AT_ONCE: Final = 50  # encoded before the event loop runs again
_MS_PER_S: Final = 1_000
_LIMITS: Final = HttpLimits(
    body_bytes_max=1 << 20,
    bodies_bytes_total_max=32 << 20,
    connections_max=500,
    request_timeout_s=10.0,
    idle_timeout_s=75.0,
    failure_lines_per_s_max=1,
)

_log = logging.getLogger("opentalos.agent")


def reply_alive(exchange: Exchange) -> None:
    """Handle /healthz."""
    exchange.reply_text(200, "ok")


class Agent:
    """One agent; ``start`` begins the measurements, ``stop`` writes the last step."""

    def __init__(self, settings: AgentSettings, config: ClientConfig) -> None:
        self._settings = settings
        self._machine = settings.machine or machine_name()
        self._client = Client(config)
        self._producer = SimpleProducer(self._client, METRICS_TOPIC)
        self._outbox = Outbox(Spool(settings.spool, settings.spool_bytes_max), self._put)
        self._threads = IoThreads("agent", threads=1, threads_max=1)
        self._intervals = Intervals(settings.step_s * _MS_PER_S)
        self._points = PushedPoints()
        host, _ = parse_address(settings.listen, "--listen")
        key = read_push_key(settings.push_key_file, host)
        self._port = PushPort(self._points, key)
        self._http = HttpServer(_LIMITS, {PUSH_PATH: self._port.serve, b"/healthz": reply_alive})
        self._use = MachineUse({}, {})
        self._before: dict[str, float] = {}
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> str:
        """Start measuring and listening; return the address. Raises: ConfigError."""
        host, port = parse_address(self._settings.listen, "--listen")
        await self._outbox.start()
        last_ms = await self._threads.run(read_last_step, self._settings.spool)
        self._intervals.resume(last_ms, _now_ms())
        await self._read_system()
        self._before = dict(self._use.counters)  # counters since the boot of the machine
        try:
            port = await self._http.listen(host, port)
        except OSError as error:
            raise ConfigError(f"cannot listen on {self._settings.listen}: {error}") from error
        self._task = asyncio.get_running_loop().create_task(self._run())
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def stop(self) -> None:
        """Stop accepting pushes, then put the last step or leave it in the spool."""
        await self._http.drain(_STOP_S / 2)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            try:
                async with asyncio.timeout(_STOP_S):
                    await self._measure(*self._intervals.cut(_now_ms()))
                    last_ms = self._intervals.last_ms
                    await self._threads.run(write_last_step, self._settings.spool, last_ms)
            except (TimeoutError, TalosError, OSError) as error:
                reason = str(error) or type(error).__name__
                _log.warning("could not measure the last step: %s", reason)
        await self._outbox.close(_STOP_S)
        await self._client.close()
        await self._threads.close(deadline_s=_STOP_S / 10)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._intervals.wait_s(_now_ms()))
            ended = self._intervals.end(_now_ms())
            if ended is None:
                continue
            try:
                await self._measure(*ended)
            except Exception:  # root of the task: the next step must be measured
                _log.exception("could not measure a step")

    async def _measure(self, at_ms: int, step_ms: int) -> None:
        await self._read_system()
        events: list[bytes] = []
        for row in self._rows(at_ms, step_ms):
            if len(events) % _ROWS_AT_ONCE == _ROWS_AT_ONCE - 1:
                await asyncio.sleep(0)
            events.append(encode_measurement(row))
        self._outbox.offer(events)

    def _rows(self, at_ms: int, step_ms: int) -> Iterator[Measurement]:
        spool = self._outbox.figures
        now = {
            **self._use.counters,
            "push_points": float(self._points.points),
            "push_refused": float(self._port.refused + self._http.refused),
        }
        before, self._before = self._before, now
        yield Measurement(
            at_ms=at_ms,
            step_ms=step_ms,
            service=MACHINE,
            machine=self._machine,
            # A counter decreases when its device was removed.
            sums={name: max(0.0, value - before.get(name, 0.0)) for name, value in now.items()},
            gauges={
                **self._use.gauges,
                "spool_bytes": float(spool.bytes_count),
                "spool_dropped": float(spool.dropped),
                "spool_corrupt": float(spool.corrupt),
            },
        )
        yield from self._points.take(at_ms, step_ms)

    async def _read_system(self) -> None:
        try:
            async with asyncio.timeout(_SYSTEM_S):
                self._use = await self._threads.run(look_at_machine)
        except (TimeoutError, OSError) as error:
            _log.warning("could not read the figures of the system: %s", str(error) or "timeout")

    async def _put(self, events: Sequence[bytes]) -> None:
        try:
            async with asyncio.timeout(PUT_S):
                topic = await self._client.topic(METRICS_TOPIC)
                partition = zlib.crc32(self._machine.encode()) % topic.partitions
                await self._producer.put(events, partition=partition)
        except TimeoutError as error:
            raise OutcomeUnknown(f"no reply of the server within {PUT_S:.0f} s") from error


def run_agent(settings: AgentSettings, config: ClientConfig, ready: Callable[[str], None]) -> None:
    """Run until SIGTERM or SIGINT; ``ready`` receives the address. Raises: ConfigError."""
    set_up_logging("info", "text")
    try:
        parse_address(settings.listen, "--listen")
    except ValueError as error:
        raise ConfigError(str(error)) from error
    asyncio.run(_serve(settings, config, ready))


async def _serve(
    settings: AgentSettings, config: ClientConfig, ready: Callable[[str], None]
) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    agent = Agent(settings, config)
    try:
        ready(await agent.start())
        await stop.wait()
    finally:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LEAVE_S):
                await agent.stop()


def _now_ms() -> int:
    return int(time.time() * _MS_PER_S)
