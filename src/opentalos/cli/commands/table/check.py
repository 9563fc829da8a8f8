"""``talos table check``: comparison of a table with its replayed state."""

from pathlib import Path

import click

from opentalos.cli.connection.completion import table_argument
from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.counts import counted
from opentalos.cli.input.durations import Duration
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
    type=Duration(click.FloatRange(0)),
    default=60.0,
    show_default=True,
    metavar="DURATION",
    help="Maximum time to wait for the replay to catch up.",
)
@click.option(
    "--rows",
    "rows_max",
    metavar="N",
    type=click.IntRange(1, 10_000),
    default=20,
    show_default=True,
    help="Maximum number of differing records to list.",
)
@click.option(
    "--master", metavar="URL", default="local[*]", show_default=True, help="Spark master URL."
)
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
    """Compare TABLE with the state that the pipeline sds-replay built from its stream.

    The comparison is as of a mark of the stream; table and pipeline may keep running. Lists the
    differing records and exits with status 1 if there are any. Needs Java and
    pip install 'opentalos[spark]'.

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
    text = f"{found.differing} of {counted(found.records, 'record')} differ"
    text += f" as of {time_text(found.mark_ms)}; {counted(found.newer, 'newer record')} not "
    text += f"compared; {counted(found.misfits, 'increment')} with a mismatched amount"
    click.echo(text, err=output.form != "text")
    return 1 if found.differing else 0
