"""``talos audit``: all pages, filters, each event once."""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from opentalos.cli.commands.tenant.audit import audit
from opentalos.cli.connection.server_options import ServerOptions


def event(number: int, principal: str, outcome: str = "done") -> dict[str, Any]:
    return {
        "id": str(number), "at_ms": number * 1_000, "principal": principal, "address": "10.0.0.1",
        "action": "grant", "resource": "a#t#1", "outcome": outcome, "error": "", "details": {},
    }  # fmt: skip


PAGES = {
    "0": {"events": [event(1, "alice"), event(2, "bob")], "next_page": 7},
    "7": {"events": [], "next_page": 9},
    "9": {"events": [event(2, "bob"), event(3, "alice", "denied")], "next_page": None},
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    paths: list[str] = []

    def rest(method: str, path: str) -> Any:
        paths.append(path)
        return PAGES[path.partition("page=")[2].partition("&")[0]]

    monkeypatch.setattr(ServerOptions, "rest", lambda _self: rest)
    return paths


def shown(*arguments: str) -> list[str]:
    done = CliRunner().invoke(audit, [*arguments, "--format", "json"], catch_exceptions=False)
    return [json.loads(line)["id"] for line in done.stdout.splitlines()]


def test_all_pages_are_read_and_no_event_is_shown_twice(asked: list[str]) -> None:
    assert shown("--from", "@12") == ["1", "2", "3"]
    assert [path.partition("&")[2] for path in asked] == ["since_ms=12000&limit=500"] * 3


def test_filters(asked: list[str]) -> None:
    assert shown("--principal", "alice") == ["1", "3"]
    assert shown("--outcome", "denied") == ["3"]
    assert shown("--principal", "bob", "--outcome", "denied") == []
