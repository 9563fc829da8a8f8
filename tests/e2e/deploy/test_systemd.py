"""The systemd unit: our commands accept what it runs, and systemd, if there is one, its options."""

import re
import shutil
import subprocess
from pathlib import Path

import click
from tests.waiting import completed

from opentalos.cli.main import talos
from opentalos.server.config import load_config

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "deploy" / "systemd"
UNIT = FOLDER / "opentalos.service"
PROGRAM = "/opt/opentalos/bin/talos"
EXPOSURE_MAX = 2.0  # of 10, as systemd-analyze security rates it


def options(name: str) -> list[str]:
    """The values of an option, in the order of the unit."""
    return re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    return completed(["systemd-analyze", *arguments])


def test_every_command_of_the_unit_is_one_of_talos() -> None:
    commands = [text.split() for text in (*options("ExecStartPre"), *options("ExecStart"))]
    assert [command[:2] for command in commands] == [[PROGRAM, "config"], [PROGRAM, "serve"]]
    for command in commands:
        check_command(command[1:])


def check_command(arguments: list[str]) -> None:
    """Raises: click.UsageError: an option is unknown, or an argument is missing."""
    command: click.Command = talos
    context, words = click.Context(talos), list(arguments)
    while isinstance(command, click.Group):
        found = command.get_command(context, words.pop(0))
        assert found is not None, arguments
        command, context = found, click.Context(found, parent=context)
    command.make_context(command.name, words)


def test_the_configuration_uses_the_units_directories_and_stops_in_time() -> None:
    loaded = load_config(FOLDER / "talos.toml")
    assert loaded.server.data == f"/var/lib/{options('StateDirectory')[0]}"
    assert loaded.console.enabled
    assert loaded.tls.cert_file  # so a browser elsewhere can log in
    assert loaded.metrics.topics_max > 0  # else dashboards show no topic and no tenant
    (stop,) = options("TimeoutStopSec")
    assert int(stop) > loaded.cluster.stop_s + 5
    (user,) = options("User")
    assert re.search(rf"^u {user} ", (FOLDER / "sysusers.conf").read_text(), re.MULTILINE)
    assert f"d /var/lib/opentalos 0700 {user} " in (FOLDER / "tmpfiles.conf").read_text()


def test_systemd_accepts_the_unit_and_rates_it(tmp_path: Path) -> None:
    """Where there is no systemd the tests above are all that can be said."""
    if shutil.which("systemd-analyze") is None:
        assert not Path("/run/systemd/system").exists(), "a system with systemd, without its tool"
        return
    text = UNIT.read_text().replace(PROGRAM, "/bin/true")  # verify wants the program to exist
    unit = tmp_path / UNIT.name
    unit.write_text(text)
    done = analyze("verify", "--man=no", str(unit))
    ours = [line for line in done.stderr.splitlines() if UNIT.name in line]
    assert ours == []
    rated = analyze("security", "--offline=true", str(unit))
    found = re.search(r"exposure level for \S+: ([\d.]+)", rated.stdout)
    assert found is not None, rated.stdout + rated.stderr
    assert float(found[1]) <= EXPOSURE_MAX
