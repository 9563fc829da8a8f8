"""``talos backup`` and ``talos restore``: the data of one server, copied while it runs."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from opentalos.cli.counts import counted
from opentalos.cli.output.formats import Output, with_format
from opentalos.cli.output.progress import Progress

if TYPE_CHECKING:
    from opentalos.server.backup.folder import Contents


@click.command()
@click.argument("target", type=click.Path(path_type=Path))
@click.option(
    "--config", "config_path", metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Configuration file (TOML) of the server.",
)  # fmt: skip
@click.option(
    "--data", metavar="DIR", type=click.Path(file_okay=False), help="Data directory of the server."
)
@with_format
def backup(target: Path, config_path: Path | None, data: str | None, output: Output) -> None:
    """Copy the data of a server to the new directory TARGET while the server runs.

    The backup contains everything acknowledged before the command started. It also contains the
    keys of the server: protect it like the data directory.

    Example: talos backup /backups/monday --data /var/lib/opentalos
    """
    from opentalos.server.backup.backup import make_backup
    from opentalos.server.config import load_config

    config = load_config(config_path)
    if data is not None:
        config = config.with_server(data=data)
    with Progress("bytes") as progress:
        contents = make_backup(config, target.absolute(), progress.show)
    _report(output, f"backed up to {target}", contents)


@click.command()
@click.argument("source", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--data", metavar="DIR", type=click.Path(path_type=Path), required=True,
    help="Data directory to create; it must be empty or absent.",
)  # fmt: skip
@with_format
def restore(source: Path, data: Path, output: Output) -> None:
    """Create a data directory from the backup SOURCE after verifying all checksums.

    Example: talos restore /backups/monday --data /var/lib/opentalos-new
    """
    from opentalos.server.backup.restore import restore_backup

    with Progress("bytes") as progress:
        contents = restore_backup(source, data, progress.show)
    _report(output, f"restored to {data}", contents)


def _report(output: Output, done: str, contents: "Contents") -> None:
    total = sum(file.bytes for file in contents.values())
    files = counted(len(contents), "file")
    output.done(f"{done}: {files}, {counted(total, 'byte')}", files=len(contents), bytes=total)
