"""``talos backup`` and ``talos restore``: the data of one server, copied while it serves."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from opentalos.cli.output import Output, with_format

if TYPE_CHECKING:
    from opentalos.server.backup_folder import Contents

_BAR_AFTER_S: Final = 2.0  # shorter work shows no bar
_BAR_WIDTH: Final = 30


@click.command()
@click.argument("target", type=click.Path(path_type=Path))
@click.option(
    "--config", "config_path", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Configuration file (TOML) of the server.",
)  # fmt: skip
@click.option("--data", type=click.Path(file_okay=False), help="Data directory of the server.")
@with_format
def backup(target: Path, config_path: Path | None, data: str | None, output: Output) -> None:
    """Copy everything a server keeps into the new directory TARGET, while the server serves.

    All that was acknowledged before the command began is in the copy. It holds the server's keys:
    keep it as safe as the data directory itself.
    """
    from opentalos.server.backup import make_backup
    from opentalos.server.config import load_config

    config = load_config(config_path)
    if data is not None:
        config = config.with_server(data=data)
    with progress_bar("backup") as progress:
        contents = make_backup(config, target.absolute(), progress)
    _tell(output, f"backed up to {target}", contents)


@click.command()
@click.argument("source", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--data", type=click.Path(path_type=Path), required=True,
    help="Data directory to make; must be empty or absent.",
)  # fmt: skip
@with_format
def restore(source: Path, data: Path, output: Output) -> None:
    """Make a data directory from the backup SOURCE, after checking all checksums."""
    from opentalos.server.restore import restore_backup

    with progress_bar("restore") as progress:
        contents = restore_backup(source, data, progress)
    _tell(output, f"restored to {data}", contents)


def _tell(output: Output, what: str, contents: "Contents") -> None:
    total = sum(one.bytes for one in contents.values())
    output.done(f"{what}: {len(contents)} files, {total} bytes", files=len(contents), bytes=total)


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """Takes what is done, of how much; draws a bar on a terminal once that has lasted a while."""
    started_s = time.monotonic()
    bar = click.progressbar(length=1, label=label, width=_BAR_WIDTH, file=sys.stderr)
    drawn = False

    def show(done: int, total: int) -> None:
        nonlocal drawn
        if not sys.stderr.isatty() or time.monotonic() - started_s < _BAR_AFTER_S:
            return
        drawn = True
        bar.length = max(1, total)
        bar.update(done - bar.pos)

    try:
        yield show
    finally:
        if drawn:
            bar.render_finish()
