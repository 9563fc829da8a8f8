"""``talos cluster demo``: three servers over real backends, with traffic, a crash and a restart."""

import base64
import json
import os
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
from opentalos.backends.pace import machine_text, memory_free_mb, slowness, too_slow
from opentalos.backends.places import jars_folder, tail_of
from opentalos.backends.ports import HOST, free_ports
from opentalos.cli.demo.leftovers import guarded
from opentalos.cli.input.interrupt import ended_like_ctrl_c

_PARTITIONS = 12
# Limits on two quiet cores; a slower machine has more time.
_START_TIMEOUT_S = 90.0
_STOP_TIMEOUT_S = 30.0
_EVENT_TIMEOUT_S = 60.0
_RESTART_S = 60.0  # limit of a planned restart; starts are slow on a machine with many processes
_MEMORY_MB = 2_000
_PAUSE_S = 4.0  # between two events of the tour, to let the viewer follow
_REDRAW_S = 0.25
_SILENCE_S_MAX = 1.0  # healthy: every partition acknowledged within this time
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
    """One ``talos serve`` process; it keeps its port over restarts."""

    name: str
    folder: Path
    port: int
    key: str
    state: str = "starting"
    process: "subprocess.Popen[str] | None" = None

    def launch(self) -> None:
        """Start the process, without waiting."""
        command = [sys.executable, "-m", "opentalos.cli.main", "serve"]
        command += ["--config", str(self.folder / "talos.toml")]
        command += ["--data", str(self.folder / "data"), "--listen", f"{HOST}:{self.port}"]
        self.state = "starting"
        with (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen(
                command,
                env={**os.environ, "TALOS_ROOT_KEY": self.key},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def wait_ready(self) -> None:
        """Wait for its ready line. Raises: ClickException."""
        assert self.process is not None
        assert self.process.stdout is not None
        limit_s = _START_TIMEOUT_S * slowness()
        timeout = threading.Timer(limit_s, self.process.kill)
        timeout.start()
        began = time.monotonic()
        line = self.process.stdout.readline()
        timeout.cancel()
        if not line.startswith("ready "):
            late = time.monotonic() - began > limit_s
            reason = f" within {limit_s:.0f} s; {too_slow()}" if late else ""
            tail = tail_of(self.folder / "log", 5)
            raise click.ClickException(f"{self.name} did not start{reason}:\n{tail}")
        self.state = "running"

    def end(self, how: signal.Signals) -> None:
        """Send a signal and wait for the process to exit."""
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
    """The last report of the traffic program; drawn in place on a terminal, else on each change."""

    servers: Sequence[_Server]
    program: "subprocess.Popen[str] | None" = None  # that reports
    report: Mapping[str, Any] = field(default_factory=dict)
    reported_at: float = field(default_factory=time.monotonic)
    placed: bool = False  # the last report has an address for every partition
    began: float = field(default_factory=time.monotonic)
    lines_drawn: int = 0
    shown: str = ""
    kept: dict[str, list[int]] = field(default_factory=dict)  # for servers that restart

    def follow(self, lines: Iterator[str]) -> None:
        """Read reports until the program exits."""
        for line in lines:
            report = json.loads(line)
            self.placed = len(report["owners"]) == _PARTITIONS
            report["owners"] = report["owners"] or self.report.get("owners", {})
            self.report, self.reported_at = report, time.monotonic()

    @property
    def silent_s(self) -> float:
        """The longest time for which a partition has not acknowledged anything."""
        return float(self.report.get("silent_s", 0.0)) + time.monotonic() - self.reported_at

    def works(self, since: float) -> bool:
        """Whether every partition acknowledged recently, and after a monotonic time."""
        return self.placed and self.silent_s < min(_SILENCE_S_MAX, time.monotonic() - since)

    def owned(self, server: _Server) -> list[int]:
        """The partitions that a server serves, as published to clients.

        While a server restarts, clients get the address of another server, which forwards.
        """
        if server.name in self.kept:
            return self.kept[server.name]
        waiting = {partition for partitions in self.kept.values() for partition in partitions}
        return [partition for partition in self.addressed(server) if partition not in waiting]

    def addressed(self, server: _Server) -> list[int]:
        """The partitions whose published address is that of a server."""
        address = f"{HOST}:{server.port}"
        owners = self.report.get("owners", {})
        return sorted(int(partition) for partition, owner in owners.items() if owner == address)

    def draw(self) -> None:
        """Draw the table of servers and partitions."""
        rows = [f"  {'server':<8}{'state':<10}partitions"]
        for server in self.servers:
            partitions = " ".join(f"{partition:>2}" for partition in self.owned(server))
            rows.append(f"  {server.name:<8}{server.state:<10}{partitions}")
        table = "\n".join(rows)
        counts = (
            f"  {time.monotonic() - self.began:5.1f} s   {self.report.get('acked', 0):,} acked, "
            f"{self.report.get('failed', 0):,} failed; longest silence {self.silent_s:.1f} s"
        )
        if sys.stdout.isatty():
            up = f"\x1b[{self.lines_drawn}F\x1b[J" if self.lines_drawn else ""
            click.echo(f"{up}{table}\n{counts}")
            self.lines_drawn = len(rows) + 1
        elif table != self.shown:
            click.echo(f"{table}\n{counts}\n")
            self.shown = table

    def state(self) -> str:
        """The servers, each with the last line of its log."""
        return "\n".join(
            f"{server.name} is {server.state} with {len(self.owned(server))} partitions; last in "
            f"its log: {tail_of(server.folder / 'log', 1) or 'nothing'}"
            for server in self.servers
        )

    def event(self, text: str) -> None:
        """Print a line that stays above the table."""
        if sys.stdout.isatty() and self.lines_drawn:
            click.echo(f"\x1b[{self.lines_drawn}F\x1b[J", nl=False)
            self.lines_drawn = 0
        click.echo(f"* {text}")

    def watch(self, seconds: float) -> None:
        """Keep drawing for some seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.draw()
            time.sleep(_REDRAW_S)

    def until(self, condition: Callable[[], bool], what: str) -> float:
        """Draw until a condition holds; return the seconds it took. Raises: ClickException."""
        began = time.monotonic()
        while not condition():
            if self.program is not None and self.program.poll() is not None:
                status = self.program.returncode
                raise click.ClickException(f"the traffic program exited with status {status}")
            waited_s = time.monotonic() - began
            if waited_s > _EVENT_TIMEOUT_S and waited_s > _EVENT_TIMEOUT_S * slowness():
                late = f"not within {waited_s:.0f} s: {what}"
                raise click.ClickException(f"{late}\n{self.state()}\n{too_slow()}")
            self.draw()
            time.sleep(_REDRAW_S)
        self.draw()
        return time.monotonic() - began


@click.command()
@click.option(
    "--sdk-python", metavar="FILE",
    type=click.Path(path_type=Path), default=Path(".sdk-venv/bin/python"),
    show_default=True, help="Python interpreter with the official SDK.",
)  # fmt: skip
@click.option(
    "--traffic", metavar="FILE",
    type=click.Path(path_type=Path), default=Path("examples/cluster_traffic.py"),
    show_default=True, help="Program that generates the traffic.",
)  # fmt: skip
@click.option("--exit", "exit_after", is_flag=True, help="Exit after the tour.")
@ended_like_ctrl_c()
def demo(sdk_python: Path, traffic: Path, exit_after: bool) -> None:
    """Run three servers over real HDFS, ZooKeeper and HBase, with traffic, a crash and a restart.

    Needs Java 17, pip install 'opentalos[cluster]', 2 GB of memory, one or two minutes and, the
    first time, Maven. All files are in a temporary directory. Whatever ends the demo, it is removed
    and all processes end.

    Example: talos cluster demo --exit
    """
    for path, remedy in (
        (sdk_python, "run make setup"),
        (traffic, "run the demo in the source tree"),
    ):
        if not path.exists():
            raise click.ClickException(f"{path} does not exist; {remedy}")
    if memory_free_mb() < _MEMORY_MB:
        click.echo(f"the demo needs 2 GB of memory and may fail: {machine_text()}", err=True)
    folder = Path(tempfile.mkdtemp(prefix="talos-cluster-demo-"))
    click.echo(f"backends, servers and logs are in {folder} until the end")
    try:
        with guarded(folder), _servers(folder, _backends(folder)) as servers:
            key, urls = servers[0].key, [f"http://{HOST}:{server.port}" for server in servers]
            command = [str(sdk_python), str(traffic), key, str(_PARTITIONS), *urls]
            with _traffic(command, servers) as view:
                _tour(view)
                if not exit_after:
                    view.event(f"keeps running until Ctrl-C: {' '.join(urls)}, key {key}")
                    while True:
                        view.watch(1.0)
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
    finally:
        click.echo("stopped the servers and backends and removed their files")


def _backends(folder: Path) -> Fleet:
    fleet = Fleet(folder / "backends")
    fleet.start(click.echo, brief=True)
    return fleet


@contextmanager
def _servers(folder: Path, fleet: Fleet) -> Iterator[list[_Server]]:
    """Start three servers and wait until they are ready."""
    key_file = folder / "cluster.key"
    key_file.write_bytes(base64.b64encode(os.urandom(32)) + b"\n")
    key = f"{_KEY_ID}:{os.urandom(16).hex()}"
    names = ("s1", "s2", "s3")
    servers, restart_s = [], _RESTART_S * slowness()
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
                restart_s=restart_s,
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
    """Run the traffic program; yield the view of its reports."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        view = _View(servers, program)
        reader = threading.Thread(target=view.follow, args=(program.stdout,), daemon=True)
        reader.start()
        try:
            yield view
        finally:
            program.kill()
            reader.join()


def _tour(view: _View) -> None:
    """Kill a server, start it again, and restart another one gracefully."""
    everyone = view.servers
    view.until(
        lambda: view.works(view.began) and all(view.owned(server) for server in everyone),
        "all servers have partitions and acknowledge",
    )
    view.watch(_PAUSE_S)
    victim, other = everyone[1], everyone[2]
    view.event(f"kill -9 {victim.name}: failover of its partitions to the other servers")
    killed = time.monotonic()
    victim.end(signal.SIGKILL)
    took_s = view.until(
        lambda: view.works(killed) and not view.owned(victim),
        "the other servers serve its partitions",
    )
    view.event(f"all partitions acknowledge again after {took_s:.1f} s")
    view.watch(_PAUSE_S)
    view.event(f"starting {victim.name} again: partitions move back to it")
    _start(view, victim)
    view.until(lambda: bool(view.owned(victim)), "it has partitions again")
    view.watch(_PAUSE_S)
    view.event(f"restarting {other.name} gracefully (SIGTERM): its partitions wait for it")
    before = view.kept[other.name] = view.owned(other)
    other.end(signal.SIGTERM)
    _start(view, other)
    back = time.monotonic()
    view.until(
        lambda: view.works(back) and bool(view.addressed(other)), "it serves its partitions again"
    )
    view.kept.clear()
    moved = "no partition moved" if view.owned(other) == before else "partitions moved"
    view.event(f"{other.name} is back: {moved}")
    view.watch(_PAUSE_S)


def _start(view: _View, server: _Server) -> None:
    """Start a server and keep drawing until it is ready."""
    server.launch()

    def wait() -> None:
        with suppress(click.ClickException):  # reported below
            server.wait_ready()

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    view.until(lambda: not waiting.is_alive(), f"{server.name} is ready")
    if server.state != "running":
        raise click.ClickException(f"{server.name} did not start again")
