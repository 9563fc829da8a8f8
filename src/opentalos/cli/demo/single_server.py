"""``talos demo``: a server on local disk and a tour with real traffic."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from opentalos.cli.input.interrupt import ended_like_ctrl_c
from opentalos.cli.input.parent import end_with_parent

_KEY_ID = "AKDEMO"
_READY = "ready "
_STOP_TIMEOUT_S = 10.0


@click.command()
@click.option(
    "--data", metavar="DIR",
    type=click.Path(path_type=Path), default=Path("demo-data"), show_default=True,
    help="Data directory of the server.",
)  # fmt: skip
@click.option(
    "--listen", metavar="HOST:PORT", default="127.0.0.1:0", show_default=True,
    help="Address to listen on; port 0 picks a free port.",
)  # fmt: skip
@click.option(
    "--sdk-python", metavar="FILE",
    type=click.Path(path_type=Path), default=Path(".sdk-venv/bin/python"),
    show_default=True, help="Python interpreter with the official SDK.",
)  # fmt: skip
@click.option(
    "--second", metavar="FILE",
    type=click.Path(path_type=Path), default=Path("examples/official_reader.py"),
    show_default=True, help="Program that joins the group through the official SDK.",
)  # fmt: skip
@click.option(
    "--messages", metavar="N", default=10_000, show_default=True, help="Number of messages."
)
@click.option("--exit", "exit_after", is_flag=True, help="Exit after the tour.")
@click.option(
    "--parent", metavar="PID", type=int, hidden=True,
    help="End once this is no longer the parent process; for make, which may be killed.",
)  # fmt: skip
@ended_like_ctrl_c()
def demo(
    data: Path,
    listen: str,
    sdk_python: Path,
    second: Path,
    messages: int,
    exit_after: bool,
    parent: int | None,
) -> None:
    """Start a server, send and read messages, and keep the server running.

    Two clients share a consumer group: one uses the SDK of this package, the other one the official
    SDK, if it is installed.

    Example: talos demo --exit
    """
    from opentalos.cli.demo.traffic import Official, run_traffic
    from opentalos.sdk import ClientConfig

    if parent is not None:
        end_with_parent(parent)
    key = _demo_key(data, f"{_KEY_ID}:{os.urandom(16).hex()}")
    command = [sys.executable, "-m", "opentalos.cli.main", "serve", "--data", str(data)]
    command += ["--listen", listen, "--console", "--supervised"]
    log = data / "server.log"
    with log.open("wb") as stderr:
        server = subprocess.Popen(
            command,
            env={**os.environ, "TALOS_ROOT_KEY": key},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    try:
        url = _wait_ready(server, log)
        click.echo(f"The server is running at {url}; data and log are in {data}/\n")
        key_id, secret = key.split(":", 1)
        config = ClientConfig(endpoints=(url,), key_id=key_id, secret=secret)
        run_traffic(config, messages, Official(sdk_python, second))
        if not exit_after:
            click.echo(f"\nThe server keeps running at {url} until Ctrl-C, with some traffic.")
            click.echo(f"  key ID and secret: {key}")
            click.echo(f"  the console:       {url}/console/")
            with suppress(KeyboardInterrupt), _live_traffic(url, key):
                server.wait()
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
    finally:
        _stop(server)


@contextmanager
def _live_traffic(url: str, key: str) -> Iterator[None]:
    """Traffic meanwhile, so that pages have something to show."""
    with subprocess.Popen(
        [sys.executable, "-m", "opentalos.cli.demo.live"],
        env={**os.environ, "TALOS_URL": url, "TALOS_KEY": key},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the demo, which then ends it
    ) as traffic:
        try:
            yield
        finally:
            traffic.kill()


def _demo_key(data: Path, fresh: str) -> str:
    """The key of an earlier demo in this directory, else the given one, saved for the next."""
    path = data / "demo.key"
    if path.exists():
        return path.read_text().strip()
    data.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(fresh + "\n")
    return fresh


def _wait_ready(server: "subprocess.Popen[str]", log: Path) -> str:
    assert server.stdout is not None
    line = server.stdout.readline().strip()
    if not line.startswith(_READY):
        server.wait(_STOP_TIMEOUT_S)
        reason = log.read_text(errors="replace").strip().rpartition("\n")[2]
        raise click.ClickException(f"the server did not start: {reason}")
    return line.removeprefix(_READY)


def _stop(server: "subprocess.Popen[str]") -> None:
    """Shut the server down; after Ctrl-C it has received SIGINT already."""
    if server.poll() is None:
        server.send_signal(signal.SIGTERM)
    try:
        server.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
