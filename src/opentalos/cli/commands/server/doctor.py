"""``talos doctor``: checks of a machine and a server, and a debug bundle."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.server_options import DATA_DEFAULT, PROFILE_VARIABLE, ServerOptions
from opentalos.cli.counts import counted
from opentalos.cli.output.formats import Output, with_format
from opentalos.model.errors import ConfigError, TalosError

if TYPE_CHECKING:
    from opentalos.cli.doctor.finding import Finding
    from opentalos.sdk import ClientConfig
    from opentalos.server.config import Config


@click.command()
@click.option("--config", "config_path", metavar="FILE", type=click.Path(path_type=Path),
              help="Configuration file (TOML) of the server.")  # fmt: skip
@click.option("--cluster", is_flag=True, help="Also check what a cluster needs: Java, packages.")
@click.option("--spark", is_flag=True, help="Also check what pipelines need: Java, packages.")
@click.option("--bundle", metavar="FILE", type=click.Path(path_type=Path),
              help="Also write what was found to this new file, without secrets.")  # fmt: skip
@with_format
@with_server
def doctor(
    config_path: Path | None,
    cluster: bool,
    spark: bool,
    bundle: Path | None,
    output: Output,
    server: ServerOptions,
) -> int:
    """Check this machine and a server, one line per check, each problem with what to do.

    Checks machine, Python, packages, open files, disk (space, file system, speed of syncs), ports,
    clock, and puts and reads one message: on the server that options, variables or a running
    server's data directory name, else on a temporary one. The topic of that message is deleted.

    The bundle has the findings, versions, the configuration without secrets, names of variables,
    and the status of a running server. No messages, keys, or files of the data directory.

    Exit status: 0 no problem (warnings may be shown), 1 a problem, 2 wrong usage.

    \b
    Example: talos doctor --data /var/lib/opentalos --bundle talos-debug.tar.gz
             talos doctor --url https://queue.example.org:9420 --format json
    """
    from opentalos.cli.doctor import disk, machine, round_trip
    from opentalos.cli.doctor.finding import COLUMNS
    from opentalos.cli.doctor.kafka_port import check_kafka_port

    if bundle is not None and bundle.exists():
        raise click.UsageError(f"{bundle} already exists; name another file for --bundle")
    config, found = _configuration(config_path)
    data = server.data or Path(config.server.data)
    reached = _reached(server, data)
    status = _status(reached)
    messages, server_s = round_trip.check_round_trip(reached)
    extras = [name for name, asked in (("cluster", cluster), ("spark", spark)) if asked]
    if config.storage.clustered and not cluster:
        extras.insert(0, "cluster")
    found += [machine.check_machine(), machine.check_python(), machine.check_packages(extras)]
    if extras:
        found.append(machine.check_java(extras))
    found += [machine.check_open_files(), machine.check_clock(server_s), *disk.check_disk(data)]
    if reached is None:
        found.append(_port(config.server.listen, data))
    found.append(check_kafka_port(config.kafka.listen, data))
    found.append(messages)
    rows = [{name: getattr(finding, name) for name in COLUMNS} for finding in found]
    if output.form == "text":
        click.echo("\n".join(finding.line for finding in found))
    else:
        output.table(COLUMNS, rows)
    if bundle is not None:
        _write(bundle, found, config, status)
    problems = sum(finding.state == "problem" for finding in found)
    if output.form == "text":
        click.echo(f"{counted(problems, 'problem')} in {counted(len(found), 'check')}")
    return int(problems > 0)


def _configuration(path: Path | None) -> tuple["Config", list["Finding"]]:
    """The configuration, the defaults if it is wrong; a finding for each wrong key."""
    from opentalos.cli.doctor.finding import Finding
    from opentalos.server.config import Config, load_config

    if path is None:
        return Config(), []
    try:
        return load_config(path), [Finding("config", "ok", f"{path}")]
    except ConfigError as error:
        # The value of a wrong key may be a secret; talos config check shows it to its owner.
        lines = [line.partition(", not ")[0] for line in str(error).splitlines()]
        remedy = "the other checks use the defaults; see talos config check"
        return Config(), [Finding("config", "problem", line, remedy) for line in lines]


def _reached(server: ServerOptions, data: Path) -> "ClientConfig | None":
    """The running server that options, variables or a data directory name. Raises: ConfigError."""
    from opentalos.sdk.core.config import URL_VARIABLE

    named = server.url or server.profile
    if not named and server.data is None:
        named = os.environ.get(URL_VARIABLE) or os.environ.get(PROFILE_VARIABLE)
    if named:
        return server.config()
    if (data / "server.json").exists():
        from dataclasses import replace

        return replace(server, data=data if data != DATA_DEFAULT else server.data).config()
    return None


def _status(reached: "ClientConfig | None") -> dict[str, Any] | None:
    """The status of a running server; None if it does not say."""
    from opentalos.sdk.rest_client import RestClient

    if reached is None:
        return None
    try:
        status: dict[str, Any] = RestClient(reached)("GET", "status")
    except TalosError:
        return None  # the round trip says what is wrong
    return status


def _port(listen: str, data: Path) -> "Finding":
    from opentalos.adapters.port_check import check_port
    from opentalos.cli.doctor.finding import Finding
    from opentalos.server.config import parse_address

    try:
        check_port(*parse_address(listen, "listen"), data.absolute())
    except ConfigError as error:
        return Finding("port", "problem", str(error))
    return Finding("port", "ok", f"{listen} is free")


def _write(
    path: Path, found: list["Finding"], config: "Config", status: dict[str, Any] | None
) -> None:
    from opentalos.cli.doctor.bundle import write_bundle
    from opentalos.cli.doctor.machine import versions
    from opentalos.server.config import redacted_toml

    write_bundle(path, found, versions(), config=redacted_toml(config), status=status)
    click.echo(f"talos: wrote {path}; look through it before you pass it on", err=True)
