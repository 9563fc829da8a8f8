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
@click.option(
    "--with-key", "key_file", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the keys of the server to this new file, outside TARGET.",
)  # fmt: skip
@with_format
def backup(
    target: Path,
    config_path: Path | None,
    data: str | None,
    key_file: Path | None,
    output: Output,
) -> None:
    """Copy the data of a server to the new directory TARGET while the server runs.

    The backup contains everything acknowledged before the command started. The key that decrypts
    the secrets in it is not part of the backup: write it with --with-key once, and keep it
    somewhere else. talos restore needs it.

    Example: talos backup /backups/monday --data /var/lib/opentalos --with-key /safe/talos.key
    """
    from opentalos.server.backup.backup import make_backup
    from opentalos.server.backup.keys import keys_of, write_key_file
    from opentalos.server.config import load_config

    config = load_config(config_path)
    if data is not None:
        config = config.with_server(data=data)
    if key_file is not None:
        if key_file.resolve().is_relative_to(target.resolve()):
            raise click.UsageError("the file of --with-key must be outside TARGET")
        if key_file.exists():
            raise click.UsageError(f"{key_file} already exists; name another file for --with-key")
    with Progress("bytes") as progress:
        contents = make_backup(config, target.absolute(), progress.show)
    _report(output, f"backed up to {target}", contents)
    if key_file is not None:
        write_key_file(key_file.absolute(), keys_of(Path(config.server.data).absolute()))
        click.echo(f"talos: wrote the keys of the server to {key_file}", err=True)
    else:
        note = "talos: the backup has no key of the server; restoring it needs one, see --with-key"
        click.echo(note, err=True)


@click.command()
@click.argument("source", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--data", metavar="DIR", type=click.Path(path_type=Path), required=True,
    help="Data directory to create; it must be empty or absent.",
)  # fmt: skip
@click.option(
    "--key", "key_file", metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with the key of the server: of talos backup --with-key, or its server.key.",
)  # fmt: skip
@with_format
def restore(source: Path, data: Path, key_file: Path | None, output: Output) -> None:
    """Create a data directory from the backup SOURCE after verifying all checksums.

    Only a backup of an earlier version, which contains the key, needs no --key.

    Example: talos restore /backups/monday --data /var/lib/opentalos-new --key /safe/talos.key
    """
    from opentalos.server.backup.restore import restore_backup

    with Progress("bytes") as progress:
        contents = restore_backup(source, data, progress.show, key_file)
    _report(output, f"restored to {data}", contents)


def _report(output: Output, done: str, contents: "Contents") -> None:
    total = sum(file.bytes for file in contents.values())
    files = counted(len(contents), "file")
    output.done(f"{done}: {files}, {counted(total, 'byte')}", files=len(contents), bytes=total)
