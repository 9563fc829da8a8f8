"""``talos log``: inspect stored logs."""

import sys
from pathlib import Path

import click

from opentalos.cli.output.formats import Output, with_format
from opentalos.cli.output.progress import Progress


@click.group("log")
def log() -> None:
    """Inspect stored logs."""


@log.command()
@click.option(
    "--config",
    "config_path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Configuration file (TOML) of the server.",
)
@click.option("--data", type=click.Path(file_okay=False), help="Data directory of the server.")
@with_format
def verify(config_path: Path | None, data: str | None, output: Output) -> None:
    """Check every CRC, offset, index and manifest while no server runs.

    One line per problem on stdout; exit code 1 if there is any. Lines that begin with "note" are
    what a crash leaves behind and the next start puts right. Nothing is changed.

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
        f"{summary.partitions} partitions, {summary.segments} segments, {summary.blocks} blocks, "
        f"{summary.bytes} bytes checked: {summary.problems} problems"
    )
    if output.form == "text":
        click.echo(text)
    else:
        output.table(("kind", "text"), [*rows, {"kind": "summary", "text": text}])
    if summary.problems:
        sys.exit(1)
