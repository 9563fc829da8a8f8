"""Servers that tests share are well after each test, or the test is told."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.rest.client import authorization, rest
from tests.server_process import TRACEBACK
from tests.shared_servers import SharedServers, tenant

CONFIG = "[group]\nlease_s = 5.0\n"


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[SharedServers]:
    made = SharedServers(tmp_path)
    yield made
    made.stop()


def test_a_configuration_has_one_server(shared: SharedServers) -> None:
    assert shared.get() is shared.get()
    assert shared.get() is not shared.get(CONFIG)
    assert shared.take_unwell() == []


def test_tenants_have_names_of_their_own(shared: SharedServers) -> None:
    for _ in range(2):
        key = authorization(tenant(shared.get()))
        made = rest(shared.get(), "POST", "topics", {"name": "same", "partitions": 1}, key)
        assert made.status == 201, made
        assert len(rest(shared.get(), "GET", "topics", None, key).document["topics"]) == 1


@pytest.mark.parametrize(
    ("hurt", "said"),
    [("kill", "was stopped"), ("crash", "ended by itself"), ("traceback", "printed a traceback")],
)
def test_who_is_hurt_is_named_and_replaced(shared: SharedServers, hurt: str, said: str) -> None:
    server, other = shared.get(), shared.get(CONFIG)
    if hurt == "kill":
        server.kill()
    elif hurt == "crash":
        assert server.process is not None
        server.process.kill()
        server.process.wait()
    else:
        with (server.folder / "server.stderr").open("a") as stderr:
            stderr.write(f"{TRACEBACK}\n  somewhere\nValueError: no\n")
    (problem,) = shared.take_unwell()
    assert said in problem
    assert shared.get(CONFIG) is other
    assert shared.get() is not server
    assert shared.take_unwell() == []
