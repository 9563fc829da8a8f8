"""``talos serve``: one server in the foreground."""

import logging
import os
import shlex
from functools import partial
from pathlib import Path
from typing import Final

import click

from opentalos.cli.connection.server_options import DATA_DEFAULT
from opentalos.cli.output.visible import on_terminal

ROOT_KEY_VARIABLE: Final = "TALOS_ROOT_KEY"
_SHOWN: Final = (
    "other users of this machine can see the secret of --root-key in the list of "
    f"processes; use --root-key-file or the environment variable {ROOT_KEY_VARIABLE}"
)


@click.command()
@click.option("--config", "config_path", metavar="FILE", type=click.Path(path_type=Path),
              help="Configuration file (TOML).")  # fmt: skip
@click.option("--data", metavar="DIR", help="Data directory.", show_default="talos-data")
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Address to listen on; port 0 picks a free port.",
    show_default="127.0.0.1:9420",
)
@click.option(
    "--advertise",
    metavar="HOST:PORT",
    help="Address that clients connect to.",
    show_default="the listen address",
)
@click.option(
    "--kafka-listen",
    metavar="HOST:PORT",
    help="Address for clients of Kafka; port 0 picks a free port, which DATA/server.json says.",
    show_default="127.0.0.1:0",
)
@click.option("--console", is_flag=True, help="Serve pages for people at /console/.")
@click.option(
    "--name",
    metavar="NAME",
    help="Name of this server in its cluster, the same at each start.",
    show_default="[cluster] name, else one that DATA keeps",
)
@click.option(
    "--root-key",
    metavar="ID:SECRET",
    help="Access key of the first administrator; other users of the machine can see it in the "
    f"list of processes, so prefer --root-key-file or the variable {ROOT_KEY_VARIABLE}.",
)
@click.option(
    "--root-key-file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="File with the access key of the first administrator, ID:SECRET.",
)
@click.option(
    "--supervised",
    is_flag=True,
    hidden=True,
    help="Stop at the end of stdin; for a program that must not leave its server behind.",
)
def serve(
    config_path: Path | None,
    data: str | None,
    listen: str | None,
    advertise: str | None,
    kafka_listen: str | None,
    console: bool,
    name: str | None,
    root_key: str | None,
    root_key_file: Path | None,
    supervised: bool,
) -> None:
    """Run a server until SIGTERM or Ctrl-C.

    Options override the configuration file; see talos config show for its keys.

    Prints the line "ready http://HOST:PORT" when the server accepts requests. The first start
    creates an administrator, whose key is that of --root-key-file or of the environment variable
    TALOS_ROOT_KEY; without either, a new key is written to DATA/root.key.

    Example: talos serve --data /var/lib/opentalos --listen 0.0.0.0:9420
    """
    from opentalos.server.config import load_config
    from opentalos.server.data_directory import ROOT_KEY_FILE
    from opentalos.server.lifecycle import run_server
    from opentalos.server.log_setup import set_up_logging

    if supervised:
        from opentalos.cli.input.parent import end_with_stdin

        end_with_stdin()
    given = {"data": data, "listen": listen, "advertise": advertise}
    config = load_config(config_path)
    config = config.with_server(**{key: value for key, value in given.items() if value is not None})
    if name is not None:
        config = config.with_name(name)
    if kafka_listen is not None:
        config = config.with_kafka_listen(kafka_listen)
    if console:
        config = config.with_console()
    key = _root_key(root_key, root_key_file)
    set_up_logging(config.server.log_level, config.server.log_format)
    if root_key is not None:
        logging.getLogger("opentalos.server").warning(_SHOWN)
    root_key_path = Path(config.server.data) / ROOT_KEY_FILE
    run_server(config, key, partial(_ready, root_key_path, root_key_path.exists()))


def _root_key(given: str | None, file: Path | None) -> tuple[str, str] | None:
    """Key id and secret, if they were given. Raises: ConfigError; UsageError: given twice."""
    from opentalos.server.data_directory import parse_key, read_root_key

    if given is not None and file is not None:
        raise click.UsageError("--root-key cannot be combined with --root-key-file")
    if file is not None:
        return read_root_key(file)
    if given is not None:
        return parse_key(given, "--root-key")
    # Programs that the server starts inherit its environment, which must not have the secret.
    variable = os.environ.pop(ROOT_KEY_VARIABLE, "")
    return parse_key(variable, ROOT_KEY_VARIABLE) if variable else None


def _ready(root_key: Path, known: bool, url: str) -> None:
    """Print the ready line, after a first start in a terminal also how to begin."""
    click.echo(f"ready {url}")
    if on_terminal() and not known and root_key.exists():
        click.echo(first_steps(root_key.parent), err=True)


def first_steps(data: Path) -> str:
    """Commands for whoever has just started their first server, with its key and address."""
    option = "" if data == DATA_DEFAULT else f" --data {shlex.quote(str(data))}"
    return (
        "This is its first start. To begin, in another terminal in this directory:\n"
        f"  talos topic create first{option}\n"
        f"  echo hello | talos produce first{option}\n"
        f"  talos consume first{option}\n"
        "Others get keys of their own:\n"
        f"  talos user create NAME{option}"
    )
