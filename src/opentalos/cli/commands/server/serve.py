"""``talos serve``: one server in the foreground."""

from pathlib import Path

import click


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
@click.option("--root-key", metavar="ID:SECRET", help="Access key of the first administrator.")
def serve(
    config_path: Path | None,
    data: str | None,
    listen: str | None,
    advertise: str | None,
    root_key: str | None,
) -> None:
    """Run a server until SIGTERM or Ctrl-C.

    Options override the configuration file; see talos config show for its keys.

    Prints the line "ready http://HOST:PORT" when the server accepts requests. The first start
    creates an administrator; unless --root-key is given, its key is written to DATA/root.key.

    Example: talos serve --data /var/lib/opentalos --listen 0.0.0.0:9420
    """
    from opentalos.server.config import load_config
    from opentalos.server.data_directory import parse_key
    from opentalos.server.lifecycle import run_server
    from opentalos.server.log_setup import set_up_logging

    given = {"data": data, "listen": listen, "advertise": advertise}
    config = load_config(config_path)
    config = config.with_server(**{key: value for key, value in given.items() if value is not None})
    key = parse_key(root_key, "--root-key") if root_key is not None else None
    set_up_logging(config.server.log_level, config.server.log_format)
    run_server(config, key, _ready)


def _ready(url: str) -> None:
    click.echo(f"ready {url}")
