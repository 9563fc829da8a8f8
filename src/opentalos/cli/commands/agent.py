"""``talos agent``: the metrics agent of a machine."""

from pathlib import Path
from typing import Final

import click

from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.input.durations import Duration
from opentalos.cli.renamed import RenamedOption

_STEP_S_MAX: Final = 3_600
_MIB: Final = 1 << 20


@click.command()
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:1988",
    show_default=True,
    help="Address for pushed values; port 0 picks a free port.",
)
@click.option(
    "--spool",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=Path("talos-agent"),
    show_default=True,
    help="Directory for measurements that cannot be sent now; one agent per directory.",
)
@click.option(
    "--spool-mib",
    metavar="MIB",
    type=click.IntRange(1, 1 << 20),
    default=64,
    show_default=True,
    help="Size limit of the spool in MiB; the oldest measurements are dropped first.",
)
@click.option(
    "--interval",
    "step_s",
    metavar="DURATION",
    cls=RenamedOption,
    former="--step",
    type=Duration(click.IntRange(1, _STEP_S_MAX)),
    default=10,
    show_default=True,
    help="Time between two measurements.",
)
@click.option(
    "--machine",
    default="",
    metavar="NAME",
    help="Machine name in the rows.  [default: the host name]",
)
@click.option(
    "--push-key-file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="File with the key that pushes need; required unless --listen is a loopback address.",
)
@with_server
def agent(
    listen: str,
    spool: Path,
    spool_mib: int,
    step_s: int,
    machine: str,
    push_key_file: Path | None,
    server: ServerOptions,
) -> None:
    """Write metrics of this machine to the topic __metrics until SIGTERM or Ctrl-C.

    Programs can push values in the Open-Falcon format to /v1/push; the official Talos clients do so
    by themselves. The key needs the permission to put to __metrics, which administrators have.
    Prints the line "ready http://HOST:PORT" when it accepts pushes. While the server is
    unreachable, measurements are spooled to disk.

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
        push_key_file=push_key_file,
    )
    run_agent(settings, server.config(deadline_s=8.0, request_timeout_s=5.0), _ready)


def _ready(url: str) -> None:
    click.echo(f"ready {url}")
