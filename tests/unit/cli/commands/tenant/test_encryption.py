"""``talos encryption``: what is asked of the server, and the bound of one call."""

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from opentalos.cli.commands.tenant.encryption import encryption
from opentalos.cli.connection.server_options import ServerOptions

STATE = {"enabled": True, "server_key": "main", "data_keys": 3}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    calls: list[tuple[Any, ...]] = []

    def rest(*arguments: Any) -> Any:
        calls.append(arguments)
        return STATE

    monkeypatch.setattr(ServerOptions, "rest", lambda _self: rest)
    return calls


def run(*arguments: str) -> Result:
    return CliRunner().invoke(encryption, [*arguments, "--format", "json"])


def test_the_state_is_shown_as_the_server_gave_it(asked: list[tuple[Any, ...]]) -> None:
    assert json.loads(run("show").stdout) == STATE
    assert asked == [("GET", "encryption")]


@pytest.mark.parametrize(
    ("tenants", "document"), [((), {}), (("CLacme", "CLshop"), {"tenants": ["CLacme", "CLshop"]})]
)
def test_the_keys_of_these_tenants_or_of_all_are_rotated(
    asked: list[tuple[Any, ...]], tenants: tuple[str, ...], document: dict[str, Any]
) -> None:
    assert run("rotate", *tenants).exit_code == 0
    assert asked == [("POST", "encryption/rotation", document)]


def test_too_many_tenants_are_refused_before_the_server_is_asked(
    asked: list[tuple[Any, ...]],
) -> None:
    done = run("rotate", *[f"CL{number}" for number in range(1_001)])
    assert (done.exit_code, asked) == (2, [])
    assert "at most 1000 tenants" in done.stderr
