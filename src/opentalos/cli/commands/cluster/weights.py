"""``talos cluster weights``: virtual nodes of the servers from the traffic of past days."""

from pathlib import Path

import click

from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.output.formats import Output, with_format
from opentalos.pipelines.traffic.report import PATH, question, report, share_rows
from opentalos.pipelines.traffic.traffic_file import read_traffic

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
    proposal = call("POST", PATH, question(days, budget))
    beside = output.form != "text"  # what is no row goes to stderr then
    most, count = proposal["moves_max"], proposal["partitions"]
    click.echo(f"at most {most} of {count} partitions may move (--budget {budget:g} %)", err=beside)
    if beside:
        output.table(_COLUMNS, list(share_rows(proposal)))
    else:
        click.echo("\n".join(report(proposal, len(days))))
    if dry_run:
        click.echo("nothing was changed (--dry-run)", err=beside)
        return
    call("PUT", "cluster/weights", {"servers": proposal["weights"]})
    servers = len(proposal["servers"])
    click.echo(
        f"weights of {servers} servers are set; the controller moves the partitions", err=beside
    )
