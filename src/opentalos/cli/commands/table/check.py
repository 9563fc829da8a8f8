"""``talos table check``: whether the replayed state of a table is the table."""

from pathlib import Path

import click

from opentalos.cli.connection.completion import table_argument
from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.input.pipelines_home import with_pipelines_home
from opentalos.cli.input.times import time_text
from opentalos.cli.output.formats import Output, with_format

_COLUMNS = ("key", "problem", "state", "table")


@click.command()
@table_argument
@with_pipelines_home
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Wait so long at most for a replay that is behind.",
)
@click.option(
    "--rows",
    "rows_max",
    type=click.IntRange(1, 10_000),
    default=20,
    show_default=True,
    help="Of the records that differ, show so many.",
)
@click.option("--master", default="local[*]", show_default=True, help="Spark's master URL.")
@with_format
@with_server
def check(
    table: str,
    home: Path,
    wait_s: float,
    rows_max: int,
    master: str,
    output: Output,
    server: ServerOptions,
) -> int:
    """Compare the state that the pipeline sds-replay made of TABLE with the table.

    As of a mark of the stream; both may go on meanwhile. Lists records that differ and ends with
    status 1. Needs pip install 'opentalos[spark]' and Java.

    Example: talos table check accounts --home pipelines
    """
    from opentalos.pipelines.pipeline import PipelineSettings
    from opentalos.pipelines.session import open_session

    server.rest().reach()
    config = server.config()
    settings = PipelineSettings(
        url=",".join(config.endpoints),
        key=f"{config.key_id}:{config.secret}",
        home=home.absolute(),
        options={"table": table},
    )
    spark = open_session("sds-check", master=master)
    try:
        from opentalos.pipelines.tables.replay_check import check as compare

        found = compare(spark, settings, wait_s=wait_s, rows_max=rows_max)
    finally:
        spark.stop()
    output.table(_COLUMNS, found.rows)
    text = f"{found.differing} of {found.records} records differ at {time_text(found.mark_ms)}"
    text += f"; {found.newer} are newer; {found.misfits} amounts did not fit"
    click.echo(text, err=output.form != "text")
    return 1 if found.differing else 0
