"""A real server inside the test process: real port, real storage in a temporary directory.

It is the server that ``talos serve`` runs, on an event loop in a separate thread, so synchronous
and asyncio tests can use it. It starts in well below a second.
"""

import base64
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final, Self

from opentalos.adapters.system_clock import SystemClock
from opentalos.sdk import ClientConfig, TalosAdmin, TopicRef
from opentalos.sdk.sync.loop_thread import LoopThread
from opentalos.server.config import Config
from opentalos.server.data_directory import DataDirectory
from opentalos.server.lifecycle import Server, open_server

_START_S: Final = 30.0  # for a machine under load; the start takes a fraction of a second
_STOP_S: Final = 10.0
_SECRET_BYTES: Final = 18


class EmbeddedServer:
    """A server that runs from ``start`` to ``stop``, or inside a ``with`` block.

    ``key_id`` and ``secret`` belong to its administrator. After ``stop`` and ``start`` it has the
    same data and another port. ``close`` removes a temporary directory.

    Args: data: keep the data in this directory instead of a temporary one; config: further
    settings of the server; its address and directory are ignored.
    """

    def __init__(self, data: Path | None = None, config: Config | None = None) -> None:
        clock = SystemClock()
        self.key_id: Final = "AKEMBEDDED"
        self.secret: Final = base64.urlsafe_b64encode(clock.token(_SECRET_BYTES)).decode()
        self._made = None if data is not None else Path(tempfile.mkdtemp(prefix="opentalos-"))
        self._data = data or self._made
        self._config = (config or Config()).with_server(data=str(self._data), listen="127.0.0.1:0")
        self._running: tuple[LoopThread, Server, DataDirectory] | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> Self:
        """Start serving. Raises: ConfigError: the directory or the configuration is invalid."""
        if self._running is not None:
            raise RuntimeError("the embedded server is already running")
        directory = DataDirectory(Path(self._config.server.data).absolute(), SystemClock())
        thread = LoopThread("opentalos-embedded")
        try:
            opening = open_server(self._config, directory, (self.key_id, self.secret))
            server = thread.run(opening, _START_S)
        except BaseException:
            thread.end()
            directory.close()
            raise
        self._running = thread, server, directory
        return self

    @property
    def url(self) -> str:
        """Its URL, ``http://127.0.0.1:PORT``."""
        if self._running is None:
            raise RuntimeError("the embedded server is not running; call start() first")
        return self._running[1].url

    def client_config(self, **settings: Any) -> ClientConfig:
        """A ClientConfig of its administrator; ``settings`` are further fields of it."""
        return ClientConfig(
            endpoints=(self.url,), key_id=self.key_id, secret=self.secret, **settings
        )

    def create_topic(self, name: str, partitions: int = 1) -> TopicRef:
        """Create a topic with the server's defaults."""
        with TalosAdmin(self.client_config()) as admin:
            return admin.topics.create(name, partitions=partitions)

    def stop(self) -> None:
        """Shut down as on SIGTERM: finish calls in flight, seal the logs. May be repeated."""
        if self._running is None:
            return
        (thread, server, directory), self._running = self._running, None
        try:
            thread.run(server.stop(), _STOP_S)
        finally:
            thread.end()
            directory.close()

    def close(self) -> None:
        """Stop, and remove a temporary directory."""
        try:
            self.stop()
        finally:
            if self._made is not None:
                shutil.rmtree(self._made, ignore_errors=True)
