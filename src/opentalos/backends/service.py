"""The base class of backends: remembered settings, daemons, waiting until they are ready."""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from opentalos.backends.daemon import Daemon, Launch
from opentalos.backends.pace import slowness, too_slow
from opentalos.backends.places import BackendError, Say, tail_of
from opentalos.backends.ports import free_ports

READY_TIMEOUT_S = 120.0  # on two quiet cores; a slower machine has more time
_POLL_S = 0.1
_PROGRESS_S = 5.0


class Backend(ABC):
    """A backend: its daemons and its directory, which remembers their ports."""

    kind: ClassVar[str]
    default_port: ClassVar[int]

    def __init__(self, homes: Path) -> None:
        self.home = homes.absolute() / self.kind
        self._settings_file = self.home / "settings.json"

    @property
    def settings(self) -> dict[str, Any]:
        """The settings chosen at the first start: ports, counts."""
        try:
            loaded: dict[str, Any] = json.loads(self._settings_file.read_text())
        except OSError:
            return {}
        return loaded

    @property
    def ports(self) -> dict[str, int]:
        """Port by use."""
        return dict(self.settings.get("ports", {}))

    @property
    @abstractmethod
    def url(self) -> str:
        """The storage URL for clients, without a path."""

    @abstractmethod
    def names(self) -> list[str]:
        """The names of its daemons in start order."""

    @abstractmethod
    def missing(self) -> str:
        """Why the backend is not ready; empty if it is."""

    @abstractmethod
    def _port_uses(self, first: int) -> Mapping[str, int]:
        """Port by use, for a given first port."""

    @abstractmethod
    def _prepare(self) -> None:
        """Write configuration files and format new storage."""

    @abstractmethod
    def _launch(self, name: str) -> Launch: ...

    def daemon(self, name: str) -> Daemon:
        """A daemon by name, to stop, kill, pause or resume."""
        if name not in self.names():
            raise BackendError(
                f"{self.kind} has no daemon {name}; it has {', '.join(self.names())}"
            )
        return Daemon(name, self.home)

    def compile_less(self) -> None:
        """Disable the optimizing JIT compiler from the next start, which halves the start-up work.

        For tests, where daemons run for minutes; too slow for benchmarks.
        """
        self.home.mkdir(parents=True, exist_ok=True)
        self._remember(compile_less=True)

    @property
    def _java_flags(self) -> list[str]:
        less = ["-XX:TieredStopAtLevel=1"] if self.settings.get("compile_less") else []
        return ["-XX:+UseSerialGC", *less]

    def start(self, say: Say, *, port: int | None = None) -> None:
        """Start and wait until ready; ``port`` as for ``launch``."""
        self.launch(say, port=port)
        self.wait_ready(say)

    def launch(self, say: Say, *, port: int | None = None) -> None:
        """Start the daemons that are not running.

        Args: port: the first port; 0: free ports, chosen once; None: as before.
        """
        self.home.mkdir(parents=True, exist_ok=True)
        self._choose_ports(port)
        self._prepare()
        say(f"{self.kind}: starting {', '.join(self.names())}")
        for name in self.names():
            self.start_daemon(name)

    def start_daemon(self, name: str) -> None:
        """Start one daemon, without waiting until it is ready."""
        self.daemon(name).start(self._launch(name))

    def wait_ready(self, say: Say) -> None:
        """Wait until ready. Raises: BackendError: a daemon exited, or timeout."""
        began = time.monotonic()
        reported_s = 0.0
        while missing := self.missing():
            waited_s = time.monotonic() - began
            for name in self.names():
                daemon = self.daemon(name)
                if daemon.pid is None:
                    raise BackendError(f"{name} of {self.kind} exited:\n{tail_of(daemon.log)}")
            if waited_s > READY_TIMEOUT_S and waited_s > READY_TIMEOUT_S * slowness():
                raise BackendError(
                    f"{self.kind} is not ready after {waited_s:.0f} s: {missing}; {too_slow()}"
                )
            if waited_s - reported_s > _PROGRESS_S:
                reported_s = waited_s
                say(f"{self.kind}: waiting for {waited_s:.0f} s: {missing}")
            time.sleep(_POLL_S)
        say(f"{self.kind}: ready at {self.url}")

    def stop(self, say: Say) -> None:
        """Stop all daemons, by pid."""
        running = [daemon for daemon in map(self.daemon, self.names()) if daemon.pid is not None]
        for daemon in running:
            daemon.terminate()
        for daemon in running:
            daemon.wait_exited()
        say(f"{self.kind}: stopped" if running else f"{self.kind}: not running")

    def status(self) -> dict[str, Any]:
        """Processes, ports and URL, as ``talos backend status --format json`` prints them."""
        known = bool(self.ports)
        missing = self.missing() if known else "never started"
        daemons = [self.daemon(name) for name in self.names()] if known else []
        return {
            "ready": not missing,
            "missing": missing,
            "url": self.url if known else "",
            "home": str(self.home),
            "ports": self.ports,
            "daemons": {
                daemon.name: {"pid": daemon.pid, "rss_mb": daemon.rss_mb} for daemon in daemons
            },
        }

    def _remember(self, **changes: Any) -> None:
        self._settings_file.write_text(json.dumps({**self.settings, **changes}, indent=1))

    def _choose_ports(self, first: int | None) -> None:
        before = self.ports
        wanted = dict(self._port_uses(first or self.default_port))
        if before and not first:
            added = [use for use in wanted if use not in before]
            chosen = before | dict(zip(added, free_ports(len(added)), strict=True))
        elif first == 0:
            chosen = dict(zip(wanted, free_ports(len(wanted)), strict=True))
        else:
            chosen = wanted
        if before and chosen | before != chosen and self._is_running():
            raise BackendError(f"{self.kind} is already running at {self.url}; stop it first")
        self._remember(ports=chosen)

    def _is_running(self) -> bool:
        return any(self.daemon(name).pid is not None for name in self.names())
