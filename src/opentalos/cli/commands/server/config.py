"""``talos config``: checking and printing of the server configuration."""

from pathlib import Path

import click


@click.group()
def config() -> None:
    """Check or print the server configuration."""


@config.command()
@click.argument("file", type=click.Path(path_type=Path))
def check(file: Path) -> None:
    """Check FILE and report every invalid key, with the nearest valid one.

    Example: talos config check /etc/opentalos.toml
    """
    from opentalos.server.config import load_config

    load_config(file)
    click.echo(f"{file}: ok")


@config.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
def show(file: Path | None) -> None:
    """Print every key with its effective value: from FILE, else the default.

    Example: talos config show > talos.toml
    """
    from opentalos.server.config import load_config, to_toml

    click.echo(to_toml(load_config(file)), nl=False)
