"""``talos config``: check a file, show what is in force."""

from pathlib import Path

import click


@click.group()
def config() -> None:
    """Check or show the configuration."""


@config.command()
@click.argument("file", type=click.Path(path_type=Path))
def check(file: Path) -> None:
    """Check FILE; every wrong key is named, with the nearest valid one.

    Example: talos config check /etc/opentalos.toml
    """
    from opentalos.server.config import load_config

    load_config(file)
    click.echo(f"{file}: ok")


@config.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
def show(file: Path | None) -> None:
    """Print every key with the value in force: of FILE, else the defaults.

    Example: talos config show > talos.toml
    """
    from opentalos.server.config import load_config, to_toml

    click.echo(to_toml(load_config(file)), nl=False)
