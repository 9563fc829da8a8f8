"""What ``talos user`` and ``talos key`` send."""

from typing import Any

import pytest
from click.testing import CliRunner

from opentalos.cli.commands.tenant.principals import key, user
from opentalos.cli.connection.server_options import ServerOptions

NOW_S = 1_800_000_000


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    calls: list[tuple[Any, ...]] = []

    def call(*arguments: Any) -> Any:
        calls.append(arguments)
        keys = [
            {"key_id": "A", "created_ms": 1, "disabled": False},
            {"key_id": "B", "created_ms": 1, "disabled": False, "expires_ms": NOW_S * 1000},
        ]
        return {"key_id": "A", "secret": "s", "keys": keys}

    monkeypatch.setattr(ServerOptions, "rest", lambda _self: call)
    monkeypatch.setattr("time.time", lambda: float(NOW_S))
    return calls


def test_a_key_is_created_with_its_limits(sent: list[tuple[Any, ...]]) -> None:
    options = "create alice --scope put --scope get --address 10.0.0.0/8 --expires-in 1h"
    assert CliRunner().invoke(key, options.split()).exit_code == 0
    assert sent[-1][2] == {
        "scopes": ("put", "get"),
        "addresses": ("10.0.0.0/8",),
        "expires_ms": (NOW_S + 3_600) * 1_000,
    }
    assert CliRunner().invoke(key, ["create", "alice"]).exit_code == 0
    assert sent[-1][2:] == (None,)
    assert CliRunner().invoke(key, ["rotate", "A", "--expires-in", "never"]).exit_code == 0
    assert sent[-1][2] == {"expires_ms": 0}
    wrong = CliRunner().invoke(key, ["create", "alice", "--expires-in", "soon"])
    assert "not a valid duration" in wrong.output


def test_a_role_is_sent_only_if_it_is_given(sent: list[tuple[Any, ...]]) -> None:
    CliRunner().invoke(user, ["create", "alice"])
    assert "role" not in sent[0][2]
    CliRunner().invoke(user, ["create", "vera", "--role", "viewer"])
    assert sent[-2][2]["role"] == "viewer"
    CliRunner().invoke(user, ["create", "vera", "--no-key"])
    assert sent[-1][1] == "principals"
    CliRunner().invoke(user, ["set-role", "vera", "billing"])
    assert sent[-1] == ("PATCH", "principals/vera", {"role": "billing"})


def test_an_expired_key_is_shown_as_such_also_of_an_older_server(
    sent: list[tuple[Any, ...]],
) -> None:
    shown = CliRunner().invoke(key, ["list", "alice"]).output.splitlines()
    assert [line.split()[1] for line in shown[-2:]] == ["live", "expired"]
