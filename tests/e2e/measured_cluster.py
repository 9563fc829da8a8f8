"""Servers of ``memory_cluster`` that measure themselves each second."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from tests.e2e.memory_cluster import MemoryServer

from opentalos.model.limits import MeasuringSettings
from opentalos.server.measuring.loop_watch import LoopWatch
from opentalos.server.measuring.measuring import Measured, Measuring


@asynccontextmanager
async def measuring(servers: Sequence[MemoryServer], folder: Path) -> AsyncIterator[None]:
    """``folder``: each server spools its measurements in a folder of its own below it."""
    async with AsyncExitStack() as undo:
        for server in servers:
            (folder / server.name).mkdir()
            measured = Measured(
                broker=server.broker,
                thrift=server.gateways.thrift,
                sds=server.gateways.sds,
                rest=server.gateways.rest,
                http=server.http,
                kafka=server.kafka.port,
                watch=LoopWatch(),
            )
            started = Measuring(MeasuringSettings(step_s=1.0), measured, folder / server.name, "c1")
            await started.start()
            undo.push_async_callback(started.stop)
        yield
