"""``talos log``: inspect stored logs."""

import sys
from pathlib import Path

import click

_PROGRESS_WIDTH = 30


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
def verify(config_path: Path | None, data: str | None) -> None:
    """Check every CRC, offset, index and manifest while no server runs.

    One line per problem on stdout; exit code 1 if there is any. Lines that begin with "note" are
    what a crash leaves behind and the next start puts right. Nothing is changed.
    """
    from opentalos.server.config import load_config
    from opentalos.server.log_verify import verify_data_directory

    config = load_config(config_path)
    if data is not None:
        config = config.with_server(data=data)

    def report(problem: bool, text: str) -> None:
        click.echo(text if problem else f"note: {text}")

    if sys.stderr.isatty():
        bar = click.progressbar(length=1, label="segments", width=_PROGRESS_WIDTH, file=sys.stderr)
        with bar:

            def progress(done: int, total: int) -> None:
                bar.length = total
                bar.update(done - bar.pos)

            summary = verify_data_directory(config, report, progress)
    else:
        summary = verify_data_directory(config, report, lambda done, total: None)
    click.echo(
        f"{summary.partitions} partitions, {summary.segments} segments, {summary.blocks} blocks, "
        f"{summary.bytes} bytes checked: {summary.problems} problems"
    )
    if summary.problems:
        sys.exit(1)
