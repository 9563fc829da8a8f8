"""Noisy neighbours, each for a while: a victim of another tenant loses nothing and sees no error.

How long the victim's calls take is measured by ``make bench BENCH=noisy``, not here.
"""

from collections.abc import Iterator
from contextlib import closing

import pytest
from bench.client import ROOT, Client, Key, new_tenant
from bench.noisy.attacker import ports_of
from bench.noisy.attacking import ATTACKING_S, attacking
from bench.noisy.behaviours import BEHAVIOURS, prepare, unexpected
from bench.noisy.victim import Victim
from bench.server import ServerProcess

from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.rest_client import RestClient

ATTACK_S = 1.0
RESIDENT_BYTES_MAX = 1_536 << 20  # idle 110 MiB; bodies, decoded blocks and replies have budgets


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("noisy") / "data") as process:
        yield process


@pytest.fixture(scope="module")
def attacker(server: ServerProcess) -> Key:
    key = new_tenant(server.port, "mallory")
    prepare(server, key)
    return key


@pytest.fixture(scope="module")
def victim(server: ServerProcess) -> Iterator[Victim]:
    with closing(Victim(server.port, new_tenant(server.port, "alice"))) as victim:
        yield victim


@pytest.mark.parametrize("name", [behaviour.name for behaviour in BEHAVIOURS])
def test_a_noisy_neighbour_costs_the_victim_no_call_and_no_message(
    server: ServerProcess, attacker: Key, victim: Victim, name: str
) -> None:
    before = len(victim.acknowledged)
    with attacking(name, ports_of(server), attacker, ATTACK_S) as seen:
        victim.run(ATTACKING_S + ATTACK_S)
        # The administrator gets an answer while it lasts, or right after it.
        rest = RestClient(ClientConfig(endpoints=(server.url,), key_id=ROOT.id, secret=ROOT.secret))
        assert rest("GET", "principals")["principals"]
    assert not victim.errors
    assert len(victim.acknowledged) > before
    assert not victim.missing()
    assert not unexpected(name, seen.statuses), dict(seen.statuses)
    assert server.peak_rss_bytes() <= RESIDENT_BYTES_MAX
    with closing(Client(server.port, attacker)) as client:
        assert client.describe_topic("noise").partitions == 8
