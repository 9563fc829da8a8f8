"""The start-up cost of the command, and the help of every sub-command."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tests.unit.matrix import matrix

from opentalos.cli.main import talos

LOADED = """
import sys
from opentalos.cli.main import talos
try:
    talos.main({arguments!r}, prog_name="talos")
except SystemExit as end:
    assert not end.code, end
print("\\n".join(sys.modules), file=sys.stderr)
"""
HEAVY = {"asyncio", "aiohttp", "cryptography", "httptools", "ssl", "pyarrow", "jpype", "kazoo"}
# Which Java a machine has is no store of a server's.
SERVER_SIDE = re.compile(
    r"(?:from|import) opentalos\.(server|broker|gateway|log|adapters(?!\.java_home\b))\b"
)
# What works on a server's own files.
LOCAL = {"serve", "config", "log_verify", "backup", "doctor"}
OURS = {
    "opentalos.agent",
    "opentalos.sdk",
    "opentalos.server",
    "opentalos.gateway",
    "opentalos.wire",
}


def commands(
    group: click.Group = talos, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        if command.hidden:
            continue  # a former name
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


@pytest.mark.parametrize("arguments", [["--help"], ["topic", "--help"], ["consume", "--help"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    program = LOADED.format(arguments=arguments)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True
    )
    assert "Usage: talos" in done.stdout
    loaded = set(done.stderr.split())
    assert not HEAVY & loaded
    assert not OURS & loaded


def test_a_server_does_not_load_what_only_a_scrape_needs() -> None:
    program = "import sys, opentalos.server.lifecycle; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "opentalos.gateway.metrics.page" in loaded
    assert not {"prometheus_client", "http.server", "aiohttp", "kazoo", "jpype"} & loaded


def test_all_commands_exist() -> None:
    context = click.Context(talos)
    assert set(talos.list_commands(context)) >= {
        "serve", "demo", "topic", "produce", "consume", "group", "acl", "user", "key", "quota",
        "cluster", "backend", "log", "backup", "restore", "bench", "config", "profile",
        "completion", "agent",
    }  # fmt: skip


@matrix(("path", "command"), list(commands()))
def test_every_command_explains_itself_with_an_example(
    path: tuple[str, ...], command: click.Command
) -> None:
    if path[-1] == "demo":
        return  # its own name is the example
    assert command.help, path
    assert f"talos {' '.join(path)}" in command.help
    assert "Example:" in command.help


@matrix(("path", "command"), list(commands()))
def test_every_option_is_explained(path: tuple[str, ...], command: click.Command) -> None:
    silent = [
        option.name
        for option in command.params
        if isinstance(option, click.Option) and not option.help and not option.hidden
    ]
    assert silent == [], path


def test_other_commands_reach_a_server_by_the_sdk_and_rest_only() -> None:
    folder = Path(str(sys.modules["opentalos.cli.main"].__file__)).parent
    found = {path.stem for path in folder.rglob("*.py") if SERVER_SIDE.search(path.read_text())}
    assert found == LOCAL


@pytest.mark.parametrize(
    ("former", "name"),
    [
        (("topic", "show"), "describe"),
        (("topic", "change"), "alter"),
        (("topic", "partitions"), "set-partitions"),
        (("group", "show"), "describe"),
    ],
)
def test_former_names_of_commands_work_and_are_not_listed(
    former: tuple[str, str], name: str
) -> None:
    shown = CliRunner().invoke(talos, [former[0], "--help"]).output
    assert f"\n  {former[1]} " not in shown
    assert f"\n  {name} " in shown
    usage = CliRunner().invoke(talos, [*former, "--help"])
    assert usage.exit_code == 0


@pytest.mark.parametrize(
    ("command", "former", "name"),
    [
        (("bench",), "--data-max", "--max-mib"),
        (("agent",), "--step", "--interval"),
        (("table", "create", "t"), "--slices", "--shards"),
    ],
)
def test_former_names_of_options_work_and_are_not_listed(
    command: tuple[str, ...], former: str, name: str
) -> None:
    shown = CliRunner().invoke(talos, [*command, "--help"]).output
    assert name in shown
    assert former not in shown
    for option in (former, name):
        refused = CliRunner().invoke(talos, [*command, option, "0"])
        assert "is not in the range" in refused.output
