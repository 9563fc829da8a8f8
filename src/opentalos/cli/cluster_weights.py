"""``talos cluster weights``: virtual nodes of the servers from the traffic of past days."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from opentalos.cli.connection import ServerOptions, with_server
from opentalos.cli.output import Output, Row, with_format
from opentalos.cli.traffic_file import read_traffic
from opentalos.server.weight_choice import Proposal, choose_weights, variance

_PLACED = {"serving", "restarting"}  # states of servers on the ring
_KEPT = _PLACED | {"draining"}  # whose weight stays set
_MOVES_SHOWN = 20
_COLUMNS = (
    "server", "share_before", "share_after", "virtual_nodes_before", "virtual_nodes_after",
)  # fmt: skip


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option(
    "--budget", type=click.FloatRange(0, 100), default=2.0, show_default=True,
    help="Percent of all partitions of the cluster that may move.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@with_format
@with_server
def weights(
    file: Path, budget: float, dry_run: bool, output: Output, server: ServerOptions
) -> None:
    """Set weights that spread the traffic of FILE evenly.

    FILE is CSV or Parquet with the columns topic (uuid or resource name), partition, day (a date
    or a number) and bytes. A partition that it does not name counts as idle. Meant to be run once
    a day.

    Example: talos cluster weights traffic.parquet --dry-run
    """
    days = read_traffic(file)
    call = server.rest()
    servers = call("GET", "cluster")["servers"]
    ring = {one["name"]: one["sectors"] for one in servers if one["state"] in _PLACED}
    partitions = call("GET", "cluster/partitions")["topics"]
    count = sum(partitions.values())
    moves_max = int(budget * count / 100)
    proposal = choose_weights(days, ring, partitions, moves_max)
    beside = output.form != "text"  # what is no row goes to stderr then
    click.echo(
        f"at most {moves_max} of {count} partitions may move (--budget {budget:g} %)", err=beside
    )
    if beside:
        output.table(_COLUMNS, list(_rows(proposal, ring)))
    else:
        click.echo("\n".join(_lines(proposal, ring, len(days))))
    if dry_run:
        click.echo("nothing was changed (--dry-run)", err=beside)
        return
    kept = {one["name"]: one["sectors"] for one in servers if one["state"] in _KEPT}
    call("PUT", "cluster/weights", {"servers": kept | dict(proposal.weights)})
    text = f"weights of {len(ring)} servers are set; the controller moves the partitions"
    click.echo(text, err=beside)


def _rows(proposal: Proposal, ring: Mapping[str, list[int]]) -> Iterator[Row]:
    """Expected share of the traffic and virtual nodes of each server."""
    total = sum(proposal.loads_before.values())
    for name in sorted(ring):
        yield {
            "server": name,
            "share_before": round(proposal.loads_before[name] / total, 6),
            "share_after": round(proposal.loads_after[name] / total, 6),
            "virtual_nodes_before": sum(ring[name]),
            "virtual_nodes_after": sum(proposal.weights[name]),
        }


def _lines(proposal: Proposal, ring: Mapping[str, list[int]], days: int) -> Iterator[str]:
    before, after = proposal.loads_before, proposal.loads_after
    total = sum(before.values())
    yield f"expected from {days} days; share of the traffic and virtual nodes, now -> then"
    width = max(map(len, ring))
    for name in sorted(ring):
        shares = f"{100 * before[name] / total:6.2f} % -> {100 * after[name] / total:6.2f} %"
        nodes = f"{sum(ring[name]):6} -> {sum(proposal.weights[name]):6}"
        yield f"  {name:<{width}}  {shares}  {nodes}"
    old, new = variance(before), variance(after)
    lower = 100 * (1 - new / old) if old else 0.0
    yield f"variance across servers: {lower:.1f} % lower; {len(proposal.moves)} partitions move"
    for key, (source, target) in list(proposal.moves.items())[:_MOVES_SHOWN]:
        yield f"  {key.topic_uuid}/{key.partition}: {source} -> {target}"
    if len(proposal.moves) > _MOVES_SHOWN:
        yield f"  and {len(proposal.moves) - _MOVES_SHOWN} more"
