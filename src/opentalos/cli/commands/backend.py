"""``talos backend``: HDFS, ZooKeeper, HBase, Druid, Kafka and YARN on this machine."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from opentalos.backends.druid import DruidBackend
from opentalos.backends.hadoop.hdfs import DATANODES_MAX, HdfsBackend
from opentalos.backends.hadoop.yarn import YarnBackend
from opentalos.backends.hbase import HbaseBackend
from opentalos.backends.jars import CLIENT, DRUID_KAFKA, PIPELINES, SERVERS, fetch
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
    "yarn": YarnBackend,
}
ALL = "all"
CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def _which(command: CommandT) -> CommandT:
    choice = click.Choice([*KINDS, ALL])
    return click.argument("kinds", type=choice, nargs=-1, required=True)(command)


def _home(command: CommandT) -> CommandT:
    return click.option(
        "--home", metavar="DIR", type=click.Path(path_type=Path), default=default_home,
        show_default="~/.local/share/opentalos/backends",
        help="Directory of data, configuration, logs and pid files.",
    )(command)  # fmt: skip


def _backends(kinds: Sequence[str], home: Path) -> list[Backend]:
    return [KINDS[name](home) for name in KINDS if name in kinds or ALL in kinds]


@click.group()
def backend() -> None:
    """Run HDFS, ZooKeeper, HBase, Druid, Kafka or YARN on this machine, on loopback.

    Intended for evaluation and tests: one NameNode, one ZooKeeper, one HBase without HDFS. Druid
    serves pipelines and needs ZooKeeper; YARN runs them and needs HDFS; Kafka serves benchmarks.
    "all" starts and fetches what a cluster of servers needs: hdfs, zookeeper and hbase.
    """


@backend.command()
@_which
@_home
@click.option(
    "--port", metavar="PORT", type=int,
    help="First port; 0 picks free ports. Remembered for the next start.",
    show_default="9820 for hdfs, 2181 for zookeeper, 2191 for hbase, 8081 for druid, "
    "9092 for kafka, 8032 for yarn",
)  # fmt: skip
@click.option(
    "--datanodes",
    metavar="N",
    type=click.IntRange(1, DATANODES_MAX),
    help="Number of HDFS DataNodes.",
)
def start(kinds: Sequence[str], home: Path, port: int | None, datanodes: int | None) -> None:
    """Fetch missing jars, start backends, and wait until they are ready.

    Backends run in the background until talos backend stop, which keeps their data.

    Example: talos backend start hdfs zookeeper hbase
    """
    chosen = [found for found in _backends(kinds, home) if found.kind in {*SERVERS, *kinds}]
    if len(chosen) > 1 and port:
        raise click.UsageError(
            "cannot start several backends at one --port; pass --port 0 or start them one by one"
        )
    for service in chosen:
        fetch(service.kind, _say)
        if isinstance(service, HdfsBackend):
            service.start(_say, port=port, datanodes=datanodes)
        else:
            service.start(_say, port=port)


@backend.command()
@_which
@_home
def stop(kinds: Sequence[str], home: Path) -> None:
    """Stop backends.

    Example: talos backend stop all
    """
    for service in reversed(_backends(kinds, home)):
        service.stop(_say)


@backend.command()
@_which
@_home
@with_format
def status(kinds: Sequence[str], home: Path, output: Output) -> None:
    """Show the processes, ports and URLs of backends.

    Example: talos backend status all
    """
    states = {service.kind: service.status() for service in _backends(kinds, home)}
    if output.form != "text":
        rows = [{"kind": name, **state} for name, state in states.items()]
        output.table(("kind", "ready", "url", "missing"), rows)
        return
    for name, state in states.items():
        click.echo(f"{name}: {state['url'] or state['missing']}")
        if state["url"]:
            click.echo("  ready" if state["ready"] else f"  not ready: {state['missing']}")
        for daemon, seen in state["daemons"].items():
            shown = f"pid {seen['pid']}, {seen['rss_mb']} MiB" if seen["pid"] else "not running"
            click.echo(f"  {daemon}: {shown}")
        for use, port in state["ports"].items():
            click.echo(f"  port {port}: {use}")


@backend.command(name="fetch")
@click.argument(
    "kinds",
    type=click.Choice([*SERVERS, *PIPELINES, DRUID_KAFKA, CLIENT, ALL]),
    nargs=-1,
    required=True,
)
def fetch_command(kinds: Sequence[str]) -> None:
    """Fetch the jars of backends, and of the clients that a server needs, with Maven.

    A server whose HDFS and HBase run elsewhere needs only "client". The jars are stored where a
    server of the same user finds them.

    Example: talos backend fetch client
    """
    wanted = [name for name in SERVERS if name in kinds or ALL in kinds]
    wanted += [name for name in (*PIPELINES, DRUID_KAFKA) if name in kinds]
    if set(kinds) - {"zookeeper", DRUID_KAFKA, *PIPELINES}:
        wanted.append(CLIENT)
    for name in wanted:
        click.echo(f"{name}: jars are in {fetch(name, _say)}")


def _say(text: str) -> None:
    click.echo(text, err=True)
