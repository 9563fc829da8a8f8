"""``talos backup`` and ``talos restore``: the data of one server, copied while it serves."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from opentalos.cli.output.formats import Output, with_format
from opentalos.cli.output.progress import Progress

if TYPE_CHECKING:
    from opentalos.server.backup.folder import Contents


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

    Example: talos backup /backups/monday --data /var/lib/opentalos
    """
    from opentalos.server.backup.backup import make_backup
    from opentalos.server.config import load_config

    config = load_config(config_path)
    if data is not None:
        config = config.with_server(data=data)
    with Progress("bytes") as progress:
        contents = make_backup(config, target.absolute(), progress.show)
    _tell(output, f"backed up to {target}", contents)


@click.command()
@click.argument("source", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--data", type=click.Path(path_type=Path), required=True,
    help="Data directory to make; must be empty or absent.",
)  # fmt: skip
@with_format
def restore(source: Path, data: Path, output: Output) -> None:
    """Make a data directory from the backup SOURCE, after checking all checksums.

    Example: talos restore /backups/monday --data /var/lib/opentalos-new
    """
    from opentalos.server.backup.restore import restore_backup

    with Progress("bytes") as progress:
        contents = restore_backup(source, data, progress.show)
    _tell(output, f"restored to {data}", contents)


def _tell(output: Output, what: str, contents: "Contents") -> None:
    total = sum(one.bytes for one in contents.values())
    output.done(f"{what}: {len(contents)} files, {total} bytes", files=len(contents), bytes=total)
