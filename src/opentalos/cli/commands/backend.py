"""``talos backend``: real HDFS, ZooKeeper, HBase, Druid and Kafka on this machine."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from opentalos.backends.druid import DruidBackend
from opentalos.backends.hbase import HbaseBackend
from opentalos.backends.hdfs import DATANODES_MAX, HdfsBackend
from opentalos.backends.jars import CLIENT, PIPELINES, SERVERS, fetch
from opentalos.backends.kafka import KafkaBackend
from opentalos.backends.places import default_home
from opentalos.backends.service import Backend
from opentalos.backends.zookeeper import ZookeeperBackend
from opentalos.cli.output.formats import Output, with_format

KINDS: dict[str, type[Backend]] = {
    "hdfs": HdfsBackend,
    "zookeeper": ZookeeperBackend,
    "hbase": HbaseBackend,
    "druid": DruidBackend,
    "kafka": KafkaBackend,
}
ALL = "all"
CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def _which(command: CommandT) -> CommandT:
    choice = click.Choice([*KINDS, ALL])
    return click.argument("kinds", type=choice, nargs=-1, required=True)(command)


def _home(command: CommandT) -> CommandT:
    return click.option(
        "--home", type=click.Path(path_type=Path), default=default_home,
        show_default="~/.local/share/opentalos/backends",
        help="Where data, configuration, logs and pid files are.",
    )(command)  # fmt: skip


def _backends(kinds: Sequence[str], home: Path) -> list[Backend]:
    return [KINDS[name](home) for name in KINDS if name in kinds or ALL in kinds]


@click.group()
def backend() -> None:
    """Real HDFS, ZooKeeper, HBase, Druid and Kafka on this machine, on loopback.

    For trying a cluster and for tests: one NameNode, one ZooKeeper, one HBase without HDFS. Druid
    is for pipelines and needs ZooKeeper; Kafka is for benchmarks. "all" starts and fetches what a
    cluster of servers needs.
    """


@backend.command()
@_which
@_home
@click.option(
    "--port", type=int,
    help="First port; 0 picks free ones. Kept for the next start.",
    show_default="9820 for hdfs, 2181 for zookeeper, 2191 for hbase, 8081 for druid, "
    "9092 for kafka",
)  # fmt: skip
@click.option(
    "--datanodes", type=click.IntRange(1, DATANODES_MAX), help="How many DataNodes HDFS has."
)
def start(kinds: Sequence[str], home: Path, port: int | None, datanodes: int | None) -> None:
    """Fetch what is missing, start, and wait until it is usable.

    It goes on in the background until ``talos backend stop``; its data stays.

    Example: talos backend start hdfs zookeeper hbase
    """
    chosen = [one for one in _backends(kinds, home) if one.kind in {*SERVERS, *kinds}]
    if len(chosen) > 1 and port:
        raise click.UsageError("--port of several can only be 0; give each a port of its own")
    for one in chosen:
        fetch(one.kind, _say)
        if isinstance(one, HdfsBackend):
            one.start(_say, port=port, datanodes=datanodes)
        else:
            one.start(_say, port=port)


@backend.command()
@_which
@_home
def stop(kinds: Sequence[str], home: Path) -> None:
    """End every process of it, by its pid.

    Example: talos backend stop all
    """
    for one in reversed(_backends(kinds, home)):
        one.stop(_say)


@backend.command()
@_which
@_home
@with_format
def status(kinds: Sequence[str], home: Path, output: Output) -> None:
    """Show processes, ports and URLs.

    Example: talos backend status all
    """
    states = {one.kind: one.status() for one in _backends(kinds, home)}
    if output.form != "text":
        rows = [{"kind": name, **state} for name, state in states.items()]
        output.table(("kind", "ready", "url", "missing"), rows)
        return
    for name, state in states.items():
        click.echo(f"{name}: {state['url'] or state['missing']}")
        if state["url"]:
            click.echo("  ready" if state["ready"] else f"  not ready: {state['missing']}")
        for daemon, seen in state["daemons"].items():
            shown = f"pid {seen['pid']}, {seen['rss_mb']} MiB" if seen["pid"] else "does not run"
            click.echo(f"  {daemon}: {shown}")
        for use, port in state["ports"].items():
            click.echo(f"  port {port}: {use}")


@backend.command(name="fetch")
@click.argument(
    "kinds", type=click.Choice([*SERVERS, *PIPELINES, CLIENT, ALL]), nargs=-1, required=True
)
def fetch_command(kinds: Sequence[str]) -> None:
    """Fetch the jars of a backend, and those that a server needs to use it, with Maven.

    A server whose HDFS and HBase run elsewhere needs only those of "client". They go where the
    server looks for them when the same user runs it.

    Example: talos backend fetch client
    """
    wanted = [name for name in SERVERS if name in kinds or ALL in kinds]
    wanted += [name for name in PIPELINES if name in kinds]
    if set(kinds) - {"zookeeper", *PIPELINES}:
        wanted.append(CLIENT)
    for name in wanted:
        click.echo(f"{name}: jars in {fetch(name, _say)}")


def _say(text: str) -> None:
    click.echo(text, err=True)
