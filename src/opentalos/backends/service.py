"""What the three backends have in common: settings, daemons, waiting until they are usable."""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from opentalos.backends.daemon import Daemon, Launch
from opentalos.backends.places import BackendError, Say, tail_of
from opentalos.backends.ports import free_ports

READY_TIMEOUT_S = 120.0
_POLL_S = 0.1
_PROGRESS_S = 5.0


class Backend(ABC):
    """Daemons of one kind below one folder, which remembers their ports."""

    kind: ClassVar[str]
    default_port: ClassVar[int]

    def __init__(self, homes: Path) -> None:
        self.home = homes.absolute() / self.kind
        self._settings_file = self.home / "settings.json"

    @property
    def settings(self) -> dict[str, Any]:
        """What was chosen at the first start: ports, counts."""
        try:
            loaded: dict[str, Any] = json.loads(self._settings_file.read_text())
        except OSError:
            return {}
        return loaded

    @property
    def ports(self) -> dict[str, int]:
        """Port by its use."""
        return dict(self.settings.get("ports", {}))

    @property
    @abstractmethod
    def url(self) -> str:
        """Where clients find it, as a storage URL without a path."""

    @abstractmethod
    def names(self) -> list[str]:
        """Its daemons, in the order of their start."""

    @abstractmethod
    def missing(self) -> str:
        """What it still lacks to be usable; empty if it is."""

    @abstractmethod
    def _port_uses(self, first: int) -> Mapping[str, int]:
        """Each use with the port it has when the first port is given."""

    @abstractmethod
    def _prepare(self) -> None:
        """Write configuration files, format what is new."""

    @abstractmethod
    def _launch(self, name: str) -> Launch: ...

    def daemon(self, name: str) -> Daemon:
        """One of its daemons, to stop, kill, pause or resume."""
        if name not in self.names():
            raise BackendError(f"{self.kind} has no {name}; known: {', '.join(self.names())}")
        return Daemon(name, self.home)

    def compile_less(self) -> None:
        """From the next start on without the optimizing compiler: half the work of a start.

        For tests, where daemons live for minutes; for benchmarks they would be too slow.
        """
        self.home.mkdir(parents=True, exist_ok=True)
        self._remember(compile_less=True)

    @property
    def _java_flags(self) -> list[str]:
        less = ["-XX:TieredStopAtLevel=1"] if self.settings.get("compile_less") else []
        return ["-XX:+UseSerialGC", *less]

    def start(self, say: Say, *, port: int | None = None) -> None:
        """Start what does not run and wait until it is usable; ``port`` as for ``launch``."""
        self.launch(say, port=port)
        self.wait_ready(say)

    def launch(self, say: Say, *, port: int | None = None) -> None:
        """Start what does not run.

        Args: port: the first of its ports; 0: free ones, chosen once; None: as before.
        """
        self.home.mkdir(parents=True, exist_ok=True)
        self._choose_ports(port)
        self._prepare()
        say(f"{self.kind}: starting {', '.join(self.names())}")
        for name in self.names():
            self.start_daemon(name)

    def start_daemon(self, name: str) -> None:
        """Start one daemon, without waiting until it is usable."""
        self.daemon(name).start(self._launch(name))

    def wait_ready(self, say: Say) -> None:
        """Wait until it is usable. Raises: BackendError if a daemon ends or time is over."""
        began = time.monotonic()
        told_s = 0.0
        while missing := self.missing():
            waited_s = time.monotonic() - began
            for name in self.names():
                daemon = self.daemon(name)
                if daemon.pid is None:
                    raise BackendError(f"{name} of {self.kind} ended:\n{tail_of(daemon.log)}")
            if waited_s > READY_TIMEOUT_S:
                raise BackendError(f"{self.kind} is not ready after {waited_s:.0f} s: {missing}")
            if waited_s - told_s > _PROGRESS_S:
                told_s = waited_s
                say(f"{self.kind}: {waited_s:.0f} s, waiting: {missing}")
            time.sleep(_POLL_S)
        say(f"{self.kind}: ready at {self.url}")

    def stop(self, say: Say) -> None:
        """End every daemon, by its pid."""
        running = [one for one in map(self.daemon, self.names()) if one.pid is not None]
        for daemon in running:
            daemon.terminate()
        for daemon in running:
            daemon.wait_ended()
        say(f"{self.kind}: stopped" if running else f"{self.kind}: does not run")

    def status(self) -> dict[str, Any]:
        """What runs where, as ``talos backend status --format json`` prints it."""
        known = bool(self.ports)
        missing = self.missing() if known else "never started"
        daemons = [self.daemon(name) for name in self.names()] if known else []
        return {
            "ready": not missing,
            "missing": missing,
            "url": self.url if known else "",
            "home": str(self.home),
            "ports": self.ports,
            "daemons": {one.name: {"pid": one.pid, "rss_mb": one.rss_mb} for one in daemons},
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
        if before and chosen | before != chosen and self._runs():
            raise BackendError(f"{self.kind} already runs at {self.url}; stop it first")
        self._remember(ports=chosen)

    def _runs(self) -> bool:
        return any(self.daemon(name).pid is not None for name in self.names())
