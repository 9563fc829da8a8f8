"""TLS of one server: the port's context and that of its own calls, taken over from files anew."""

import asyncio
import contextlib
import logging
import ssl
import time

from opentalos.adapters.tls_files import (
    LoadedTls,
    Stamp,
    load_tls,
    load_tls_aside,
    stamp,
    stamp_aside,
)
from opentalos.gateway.http.tls import TlsContext
from opentalos.model.errors import ConfigError
from opentalos.model.limits import TlsSettings

_EXPIRES_SOON_S = 14 * 86_400.0  # a warning at each load from here on

_log = logging.getLogger("opentalos.tls")


class ServerTls:
    """Contexts that follow the files of [tls]; ``port`` is None where the port is plain.

    Raises: ConfigError: at the start the files must be right. Later a broken one is logged and
    counted, and what was loaded last goes on.
    """

    def __init__(self, settings: TlsSettings) -> None:
        self._settings = settings
        self._seen: Stamp = stamp(settings)
        self._loaded = load_tls(settings)
        self.port: TlsContext | None = None
        if self._loaded.server is not None:
            self.port = TlsContext.serving(
                self._loaded.server,
                handshakes_max=settings.handshakes_max,
                handshake_timeout_s=settings.handshake_timeout_s,
            )
        self.reloads = 0
        self.reload_failures = 0
        self._task: asyncio.Task[None] | None = None
        self._asked = asyncio.Event()
        _warn_of_end(self._loaded)

    @property
    def expires_s(self) -> float:
        """Unix time at which the certificate in use ends; 0: none is used."""
        return self._loaded.expires_s

    def client(self) -> ssl.SSLContext:
        """For the next connection to another server."""
        return self._loaded.client

    def start(self) -> None:
        """Follow the files from now on."""
        settings = self._settings
        if settings.enabled or settings.peer_ca_file:
            self._task = asyncio.create_task(self._run(), name="tls-files")

    def reload(self) -> None:
        """Look at the files now, and read them even if they seem unchanged."""
        self._seen = ()
        self._asked.set()

    async def close(self) -> None:
        """Follow no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.reload_interval_s):
                    await self._asked.wait()
            self._asked.clear()
            try:
                await self._look()
            except Exception:
                # Without this loop a new certificate would never be taken.
                _log.exception("looking at the files of [tls] failed")

    async def _look(self) -> None:
        found = await stamp_aside(self._settings)
        if found == self._seen:
            return
        # Noted before they are read: what changes meanwhile is seen at the next look.
        self._seen = found
        try:
            loaded = await load_tls_aside(self._settings)
        except ConfigError as error:
            self.reload_failures += 1
            _log.error("the former certificate stays in use: %s", error)
            return
        self._loaded = loaded
        if self.port is not None and loaded.server is not None:
            self.port.use(loaded.server)
        self.reloads += 1
        _log.info("changed files of [tls] are in use")
        _warn_of_end(loaded)


def _warn_of_end(loaded: LoadedTls) -> None:
    left_s = loaded.expires_s - time.time()
    if loaded.expires_s and left_s < _EXPIRES_SOON_S:
        days = left_s / 86_400.0
        _log.warning("the certificate of this server ends in %.1f days", days)
