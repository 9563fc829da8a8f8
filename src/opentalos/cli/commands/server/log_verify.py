"""``talos log``: inspection of stored logs."""

import sys
from pathlib import Path

import click

from opentalos.cli.counts import counted
from opentalos.cli.output.formats import Output, with_format
from opentalos.cli.output.progress import Progress


@click.group("log")
def log() -> None:
    """Inspect stored logs."""


@log.command()
@click.option(
    "--config",
    "config_path",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Configuration file (TOML) of the server.",
)
@click.option(
    "--data", metavar="DIR", type=click.Path(file_okay=False), help="Data directory of the server."
)
@with_format
def verify(config_path: Path | None, data: str | None, output: Output) -> None:
    """Verify every CRC, offset, index and manifest of a server that is stopped.

    Prints one line per problem and exits with status 1 if there are any. A line that begins with
    "note" describes a leftover of a crash that the next start repairs. Changes nothing.

    Example: talos log verify --data /var/lib/opentalos
    """
    from opentalos.server.config import load_config
    from opentalos.server.log_verify import verify_data_directory

    config = load_config(config_path)
    if data is not None:
        config = config.with_server(data=data)
    rows: list[dict[str, str]] = []

    def report(problem: bool, text: str) -> None:
        if output.form == "text":
            click.echo(text if problem else f"note: {text}")
        else:
            rows.append({"kind": "problem" if problem else "note", "text": text})

    with Progress("segments") as progress:
        summary = verify_data_directory(config, report, progress.show)
    text = (
        f"checked {counted(summary.partitions, 'partition')}, "
        f"{counted(summary.segments, 'segment')}, {counted(summary.blocks, 'block')}, "
        f"{counted(summary.bytes, 'byte')}: {counted(summary.problems, 'problem')}"
    )
    if output.form == "text":
        click.echo(text)
    else:
        output.table(("kind", "text"), [*rows, {"kind": "summary", "text": text}])
    if summary.problems:
        sys.exit(1)
