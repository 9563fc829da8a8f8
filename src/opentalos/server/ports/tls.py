"""TLS of one server: the contexts of its port and of its calls to peers, reloaded from files."""

import asyncio
import contextlib
import logging
import ssl
import time
from dataclasses import replace

from opentalos.adapters.tls_files import (
    LoadedTls,
    Stamp,
    load_tls,
    load_tls_aside,
    stamp,
    stamp_aside,
    system_client,
)
from opentalos.gateway.http.tls import TlsContext
from opentalos.model.errors import ConfigError
from opentalos.model.settings.security import TlsSettings

_EXPIRES_SOON_S = 14 * 86_400.0  # each load logs a warning in this period

_log = logging.getLogger("opentalos.tls")


class ServerTls:
    """Contexts that follow the files of [tls]; ``port`` is None without TLS.

    Raises: ConfigError: the files must be valid at the start. Later an invalid file is logged and
    counted, and the certificate loaded last stays in use.
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
        """Unix time at which the certificate in use expires; 0: none is used."""
        return self._loaded.expires_s

    def client(self) -> ssl.SSLContext:
        """The context for the next connection to another server."""
        if self._loaded.client is None:
            self._loaded = replace(self._loaded, client=system_client(self._settings))
        assert self._loaded.client is not None
        return self._loaded.client

    def start(self) -> None:
        """Start to watch the files."""
        settings = self._settings
        if settings.enabled or settings.peer_ca_file:
            self._task = asyncio.create_task(self._run(), name="tls-files")

    def reload(self) -> None:
        """Read the files now, even if they seem unchanged."""
        self._seen = ()
        self._asked.set()

    async def close(self) -> None:
        """Stop watching the files."""
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
                await self._refresh()
            except Exception:
                # The loop must continue, or a new certificate would never be loaded.
                _log.exception("could not check the files of [tls]; retrying")

    async def _refresh(self) -> None:
        found = await stamp_aside(self._settings)
        if found == self._seen:
            return
        # Noted before the files are read: the next check sees a change in between.
        self._seen = found
        try:
            loaded = await load_tls_aside(self._settings)
        except ConfigError as error:
            self.reload_failures += 1
            _log.error("could not reload [tls]: %s; the former certificate stays in use", error)
            return
        self._loaded = loaded
        if self.port is not None and loaded.server is not None:
            self.port.use(loaded.server)
        self.reloads += 1
        _log.info("reloaded the files of [tls]")
        _warn_of_end(loaded)


def _warn_of_end(loaded: LoadedTls) -> None:
    left_s = loaded.expires_s - time.time()
    if loaded.expires_s and left_s < _EXPIRES_SOON_S:
        days = left_s / 86_400.0
        _log.warning("the certificate of this server expires in %.1f days; renew it", days)
