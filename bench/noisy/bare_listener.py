"""A listener that takes all bytes and does nothing with them; ``bare_listener`` starts it.

Prints its port; ends with its standard input.
"""

import asyncio
import contextlib
import resource
import subprocess
import sys
from collections.abc import Iterator

BUFFER_BYTES = 1 << 16
BACKLOG = 1_024


class Discarding(asyncio.BufferedProtocol):
    """Reads and forgets."""

    _shared = memoryview(bytearray(BUFFER_BYTES))

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        return self._shared

    def buffer_updated(self, nbytes: int) -> None:
        """They came, and are not looked at."""


async def listen() -> None:
    """Serve until standard input ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Discarding, "127.0.0.1", 0, backlog=BACKLOG)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


@contextlib.contextmanager
def bare_listener() -> Iterator[int]:
    """The port of such a process. Raises: RuntimeError: it did not start."""
    command = [sys.executable, "-m", "bench.noisy.bare_listener"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            raise RuntimeError("the bare listener did not start")
        yield int(line)
    finally:
        process.kill()
        process.communicate()  # closes its pipes


if __name__ == "__main__":
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(listen())
