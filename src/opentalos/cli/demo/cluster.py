"""``talos cluster demo``: three servers over real backends, traffic, a kill, moving partitions."""

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from opentalos.backends.fleet import Fleet
from opentalos.backends.jars import CLIENT
from opentalos.backends.places import jars_folder
from opentalos.backends.ports import HOST, free_ports

_PARTITIONS = 12
_START_TIMEOUT_S = 90.0
_STOP_TIMEOUT_S = 30.0
_EVENT_TIMEOUT_S = 60.0
_RESTART_S = 60.0  # an announced restart; a server takes long to start beside so many others
_LOOK_S = 4.0  # between two events of the tour, so that one can see what happens
_DRAWN_EVERY_S = 0.25
_QUIET_S = 1.0  # every partition acknowledged within this time: it works
_KEY_ID = "AKDEMO"
_CONFIG = """[server]
log_level = "warning"
[storage]
files = "{hdfs}/talos-demo"
meta = "{zookeeper}/talos-demo"
rows = "{hbase}/talos_demo"
[cluster]
name = "{name}"
key_file = "{key_file}"
stable_after_s = 2.0
restart_s = {restart_s}
[hdfs]
conf_dir = "{conf_dir}"
[jvm]
jars = "{jars}"
heap_mb = 128
"""

Say = Callable[[str], None]


@dataclass
class _Server:
    """One ``talos serve`` process, which keeps its port."""

    name: str
    folder: Path
    port: int
    key: str
    state: str = "starts"
    process: "subprocess.Popen[str] | None" = None

    def launch(self) -> None:
        """Start it, without waiting."""
        command = [sys.executable, "-m", "opentalos.cli.main", "serve"]
        command += ["--config", str(self.folder / "talos.toml"), "--root-key", self.key]
        command += ["--data", str(self.folder / "data"), "--listen", f"{HOST}:{self.port}"]
        self.state = "starts"
        with (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True
            )

    def wait_ready(self) -> None:
        """Wait for its ready line. Raises: ClickException."""
        assert self.process is not None
        assert self.process.stdout is not None
        late = threading.Timer(_START_TIMEOUT_S, self.process.kill)
        late.start()
        line = self.process.stdout.readline()
        late.cancel()
        if not line.startswith("ready "):
            said = (self.folder / "log").read_text().splitlines()[-5:]
            raise click.ClickException("\n".join([f"{self.name} did not start:", *said]))
        self.state = "runs"

    def end(self, how: signal.Signals) -> None:
        """Send a signal and wait for the end."""
        if self.process is None:
            return
        self.process.send_signal(how)
        try:
            self.process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.process, self.state = None, "down"


@dataclass
class _View:
    """What the traffic program told last; drawn in place on a terminal, else on each change."""

    servers: Sequence[_Server]
    told: Mapping[str, Any] = field(default_factory=dict)
    told_at: float = field(default_factory=time.monotonic)
    placed: bool = False  # an address of every partition was told last
    began: float = field(default_factory=time.monotonic)
    lines_drawn: int = 0
    shown: str = ""
    kept: dict[str, list[int]] = field(default_factory=dict)  # for servers that restart

    def follow(self, lines: Iterator[str]) -> None:
        """Take in what the program tells, until it ends."""
        for line in lines:
            told = json.loads(line)
            self.placed = len(told["owners"]) == _PARTITIONS
            told["owners"] = told["owners"] or self.told.get("owners", {})
            self.told, self.told_at = told, time.monotonic()

    @property
    def silent_s(self) -> float:
        """How long the quietest partition has not acknowledged anything."""
        return float(self.told.get("silent_s", 0.0)) + time.monotonic() - self.told_at

    def works(self, since: float) -> bool:
        """Every partition acknowledged something lately, and since a moment of monotonic time."""
        return self.placed and self.silent_s < min(_QUIET_S, time.monotonic() - since)

    def owned(self, server: _Server) -> list[int]:
        """Partitions that a server serves, as clients are told.

        While a server restarts, clients are told the address of another one, which passes on.
        """
        if server.name in self.kept:
            return self.kept[server.name]
        waiting = {partition for partitions in self.kept.values() for partition in partitions}
        return [one for one in self.addressed(server) if one not in waiting]

    def addressed(self, server: _Server) -> list[int]:
        """Partitions whose address, as clients are told, is that of a server."""
        address = f"{HOST}:{server.port}"
        owners = self.told.get("owners", {})
        return sorted(int(one) for one, owner in owners.items() if owner == address)

    def draw(self) -> None:
        """The table of servers and partitions."""
        rows = [f"  {'server':<8}{'state':<8}partitions"]
        for server in self.servers:
            partitions = " ".join(f"{one:>2}" for one in self.owned(server))
            rows.append(f"  {server.name:<8}{server.state:<8}{partitions}")
        table = "\n".join(rows)
        counts = (
            f"  {time.monotonic() - self.began:5.1f} s   {self.told.get('acked', 0):,} acked, "
            f"{self.told.get('failed', 0):,} failed; longest silence now {self.silent_s:.1f} s"
        )
        if sys.stdout.isatty():
            up = f"\x1b[{self.lines_drawn}F\x1b[J" if self.lines_drawn else ""
            click.echo(f"{up}{table}\n{counts}")
            self.lines_drawn = len(rows) + 1
        elif table != self.shown:
            click.echo(f"{table}\n{counts}\n")
            self.shown = table

    def event(self, text: str) -> None:
        """A line that stays above the table."""
        if sys.stdout.isatty() and self.lines_drawn:
            click.echo(f"\x1b[{self.lines_drawn}F\x1b[J", nl=False)
            self.lines_drawn = 0
        click.echo(f"* {text}")

    def watch(self, seconds: float) -> None:
        """Draw for a while."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.draw()
            time.sleep(_DRAWN_EVERY_S)

    def until(self, condition: Callable[[], bool], what: str) -> float:
        """Draw until something holds; the seconds it took. Raises: ClickException."""
        began = time.monotonic()
        while not condition():
            if time.monotonic() - began > _EVENT_TIMEOUT_S:
                raise click.ClickException(f"not after {_EVENT_TIMEOUT_S:.0f} s: {what}")
            self.draw()
            time.sleep(_DRAWN_EVERY_S)
        self.draw()
        return time.monotonic() - began


@click.command()
@click.option(
    "--sdk-python", type=click.Path(path_type=Path), default=Path(".sdk-venv/bin/python"),
    show_default=True, help="Python that has the official SDK.",
)  # fmt: skip
@click.option(
    "--traffic", type=click.Path(path_type=Path), default=Path("examples/cluster_traffic.py"),
    show_default=True, help="The program that makes the traffic.",
)  # fmt: skip
@click.option("--exit", "exit_after", is_flag=True, help="End after the tour.")
def demo(sdk_python: Path, traffic: Path, exit_after: bool) -> None:
    """Three servers over real HDFS, ZooKeeper and HBase: traffic, a kill, moving partitions.

    Needs Java 17, the packages of opentalos[cluster] and, the first time, Maven; 2 GB of memory and
    a minute or two. Everything is in a folder of its own and removed at the end, also by Ctrl-C.
    """
    for path, remedy in ((sdk_python, "run: make setup"), (traffic, "run it in the project")):
        if not path.exists():
            raise click.ClickException(f"{path} does not exist; {remedy}")
    folder = Path(tempfile.mkdtemp(prefix="talos-cluster-demo-"))
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    click.echo(f"backends, servers and their logs are in {folder} until the end")
    try:
        with _backends(folder) as fleet, _servers(folder, fleet) as servers:
            key, urls = servers[0].key, [f"http://{HOST}:{one.port}" for one in servers]
            command = [str(sdk_python), str(traffic), key, str(_PARTITIONS), *urls]
            with _traffic(command, servers) as view:
                _tour(view)
                if not exit_after:
                    view.event(f"it goes on until Ctrl-C: {' '.join(urls)}, key {key}")
                    while True:
                        view.watch(1.0)
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
    finally:
        signal.signal(signal.SIGTERM, previous)
        shutil.rmtree(folder, ignore_errors=True)
        click.echo("all is stopped and removed")


@contextmanager
def _backends(folder: Path) -> Iterator[Fleet]:
    fleet = Fleet(folder / "backends")
    try:
        fleet.start(click.echo, brief=True)
        yield fleet
    finally:
        fleet.kill()


@contextmanager
def _servers(folder: Path, fleet: Fleet) -> Iterator[list[_Server]]:
    """Three servers that are ready."""
    key_file = folder / "cluster.key"
    key_file.write_bytes(base64.b64encode(os.urandom(32)) + b"\n")
    key = f"{_KEY_ID}:{os.urandom(16).hex()}"
    names = ("s1", "s2", "s3")
    servers = []
    for name, port in zip(names, free_ports(len(names)), strict=True):
        home = folder / name
        home.mkdir()
        (home / "talos.toml").write_text(
            _CONFIG.format(
                hdfs=fleet.hdfs.url,
                conf_dir=fleet.hdfs.conf_dir,
                zookeeper=fleet.zookeeper.url,
                hbase=fleet.hbase.url,
                jars=jars_folder(CLIENT),
                name=name,
                key_file=key_file,
                restart_s=_RESTART_S,
            )
        )
        servers.append(_Server(name, home, port, key))
    try:
        click.echo(f"servers: starting {', '.join(names)}")
        for server in servers:
            server.launch()
        for server in servers:
            server.wait_ready()
        click.echo("servers: ready\n")
        yield servers
    finally:
        for server in servers:
            server.end(signal.SIGKILL)


@contextmanager
def _traffic(command: Sequence[str], servers: Sequence[_Server]) -> Iterator[_View]:
    """The traffic program, and the view of what it tells."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        view = _View(servers)
        reader = threading.Thread(target=view.follow, args=(program.stdout,), daemon=True)
        reader.start()
        try:
            yield view
        finally:
            program.kill()
            reader.join()


def _tour(view: _View) -> None:
    """Kill a server, start it again, restart another one in order."""

    everyone = view.servers
    view.until(
        lambda: view.works(view.began) and all(view.owned(one) for one in everyone),
        "all servers have partitions and acknowledge",
    )
    view.watch(_LOOK_S)
    victim, other = everyone[1], everyone[2]
    view.event(f"kill -9 of {victim.name}: the others take its partitions over")
    killed = time.monotonic()
    victim.end(signal.SIGKILL)
    took_s = view.until(
        lambda: view.works(killed) and not view.owned(victim), "the others serve its partitions"
    )
    view.event(f"every partition acknowledges again after {took_s:.1f} s")
    view.watch(_LOOK_S)
    view.event(f"{victim.name} is started again: partitions move back to it")
    _start(view, victim)
    view.until(lambda: bool(view.owned(victim)), "it has partitions again")
    view.watch(_LOOK_S)
    view.event(f"{other.name} is restarted in order (SIGTERM): its partitions wait for it")
    before = view.kept[other.name] = view.owned(other)
    other.end(signal.SIGTERM)
    _start(view, other)
    back = time.monotonic()
    view.until(
        lambda: view.works(back) and bool(view.addressed(other)), "it serves its partitions again"
    )
    view.kept.clear()
    moved = "nothing moved" if view.owned(other) == before else "partitions moved"
    view.event(f"{other.name} is back: {moved}")
    view.watch(_LOOK_S)


def _start(view: _View, server: _Server) -> None:
    """Start a server while the table goes on."""
    server.launch()

    def wait() -> None:
        with suppress(click.ClickException):  # said below
            server.wait_ready()

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    view.until(lambda: not waiting.is_alive(), f"{server.name} is ready")
    if server.state != "runs":
        raise click.ClickException(f"{server.name} did not start again")
