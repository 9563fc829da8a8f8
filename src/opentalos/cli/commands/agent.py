"""``talos agent``: measure this machine, and take what programs on it push."""

from pathlib import Path
from typing import Final

import click

from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.server_options import ServerOptions

_STEP_S_MAX: Final = 3_600
_MIB: Final = 1 << 20


@click.command()
@click.option(
    "--listen",
    default="127.0.0.1:1988",
    show_default=True,
    help="HOST:PORT for pushes; port 0 picks a free one.",
)
@click.option(
    "--spool",
    type=click.Path(path_type=Path),
    default=Path("talos-agent"),
    show_default=True,
    help="Directory for what the server does not take now; one agent at a time.",
)
@click.option(
    "--spool-mib",
    type=click.IntRange(1, 1 << 20),
    default=64,
    show_default=True,
    help="Room in it; the oldest go first.",
)
@click.option(
    "--step",
    "step_s",
    type=click.IntRange(1, _STEP_S_MAX),
    default=10,
    show_default=True,
    help="Seconds between two measurements.",
)
@click.option("--machine", default="", metavar="NAME", help="Name in the rows.  [default: host]")
@with_server
def agent(
    listen: str,
    spool: Path,
    spool_mib: int,
    step_s: int,
    machine: str,
    server: ServerOptions,
) -> None:
    """Measure this machine and write it to the topic __metrics, until SIGTERM or Ctrl-C.

    Programs may push their own values in the format of Open-Falcon to /v1/push: official Talos
    clients do so by themselves. The key needs the permission to put to __metrics, which
    administrators have. Prints one line, ``ready http://HOST:PORT``, when it takes pushes. While
    the server cannot be reached, measurements wait on disk.

    Example: talos agent --url http://queue:9420 --as ID:SECRET --spool /var/lib/talos-agent
    """
    from opentalos.agent.program import run_agent
    from opentalos.agent.settings import AgentSettings

    settings = AgentSettings(
        listen=listen,
        spool=spool,
        spool_bytes_max=spool_mib * _MIB,
        step_s=step_s,
        machine=machine,
    )
    run_agent(settings, server.config(deadline_s=8.0, request_timeout_s=5.0), _ready)


def _ready(url: str) -> None:
    click.echo(f"ready {url}")
