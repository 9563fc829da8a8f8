"""``talos cluster weights``: virtual nodes of the servers, computed from past traffic."""

from pathlib import Path

import click

from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.counts import counted
from opentalos.cli.output.formats import Output, with_format
from opentalos.pipelines.traffic.report import PATH, question, report, share_rows
from opentalos.pipelines.traffic.traffic_file import read_traffic

_COLUMNS = (
    "server", "share_before", "share_after", "virtual_nodes_before", "virtual_nodes_after",
)  # fmt: skip


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option(
    "--budget", metavar="PERCENT", type=click.FloatRange(0, 100), default=2.0, show_default=True,
    help="Percentage of the partitions of the cluster that may move.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Show the proposal, and change nothing.")
@with_format
@with_server
def weights(
    file: Path, budget: float, dry_run: bool, output: Output, server: ServerOptions
) -> None:
    """Set server weights that distribute the traffic in FILE evenly.

    FILE is CSV or Parquet with the columns topic (UUID or resource name), partition, day (a date
    or a number) and bytes. Partitions that are not in FILE count as idle. Run it once a day, from
    cron for example.

    Example: talos cluster weights traffic.parquet --dry-run
    """
    days = read_traffic(file)
    call = server.rest()
    proposal = call("POST", PATH, question(days, budget))
    to_stderr = output.form != "text"  # stdout has only rows then
    most, count = proposal["moves_max"], counted(proposal["partitions"], "partition")
    click.echo(f"at most {most} of {count} may move (--budget {budget:g} %)", err=to_stderr)
    if to_stderr:
        output.table(_COLUMNS, list(share_rows(proposal)))
    else:
        click.echo("\n".join(report(proposal, len(days))))
    if dry_run:
        click.echo("dry run: nothing was changed", err=to_stderr)
        return
    call("PUT", "cluster/weights", {"servers": proposal["weights"]})
    servers = counted(len(proposal["servers"]), "server")
    click.echo(f"set the weights of {servers}; the controller moves the partitions", err=to_stderr)
