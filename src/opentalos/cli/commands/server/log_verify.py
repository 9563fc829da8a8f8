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
@click.option("--repair", is_flag=True, help="Rebuild side indexes that cannot be used.")
@with_format
def verify(config_path: Path | None, data: str | None, repair: bool, output: Output) -> None:
    """Verify every CRC, offset, index and manifest of a server that is stopped.

    Prints one line per finding. A line without a prefix is damage: bytes are wrong or gone.
    "rebuildable" is a side index that is missing or wrong; the server does without it, and --repair
    rebuilds it from its sound segment. "note" is a leftover of a crash that the next start puts
    right. Without --repair, nothing is changed; with it, nothing but side indexes.

    Exit status: 0 no damage, 1 damage, or the logs could not be verified (a line "error: ..." and
    no summary, for example while the server runs), 2 wrong usage.

    Example: talos log verify --data /var/lib/opentalos --format json
    """
    from opentalos.server.config import load_config
    from opentalos.server.log_verify import Line, verify_data_directory

    config = load_config(config_path)
    if data is not None:
        config = config.with_server(data=data)
    rows: list[dict[str, str | int]] = []

    def report(line: Line) -> None:
        if output.form == "text":
            click.echo(line.text if line.kind == "damage" else f"{line.kind}: {line.text}")
        else:
            rows.append(line._asdict())

    with Progress("segments") as progress:
        summary = verify_data_directory(config, report, progress.show, repair=repair)
    text = (
        f"checked {counted(summary.partitions, 'partition')}, "
        f"{counted(summary.segments, 'segment')}, {counted(summary.blocks, 'block')}, "
        f"{counted(summary.bytes, 'byte')}: {counted(summary.problems, 'problem')}"
    )
    if summary.rebuildable:
        text += f", {counted(summary.rebuildable, 'rebuildable file')}"
    if summary.repaired:
        text += f", {counted(summary.repaired, 'rebuilt file')}"
    if output.form == "text":
        click.echo(text)
    else:
        output.table(Line._fields, [*rows, {"kind": "summary", "text": text, **summary._asdict()}])
    if summary.problems:
        sys.exit(1)
