"""How a user of the package tests with it: an own scenario, in virtual time, judged by name."""

import hashlib
import subprocess
import sys
from functools import partial

import pytest

from opentalos.broker.broker import Broker
from opentalos.broker.messaging.messages import GetQuery, GetResult, PutTarget
from opentalos.broker.values import NewTopic
from opentalos.model.identity import Principal
from opentalos.model.message import MessageBlock
from opentalos.testing import FileFaults, World, WorldConfig, WorldFaults, check

CALLER = Principal(id="alice", number=1)
NO_FAULTS = WorldConfig(files=FileFaults(), world=WorldFaults())


async def _get(query: GetQuery, broker: Broker) -> GetResult:
    return await broker.messages.get(CALLER, query)


@pytest.mark.parametrize("power", [False, True])
def test_an_acknowledged_message_is_there_after_a_crash(power: bool) -> None:
    found: list[bytes] = []

    async def scenario(world: World) -> None:
        server = await world.start_server()
        new = NewTopic(name="clicks", partitions=1)
        topic = await server.call(
            "create", lambda broker: broker.topics.create_topic(CALLER, new), timeout_s=60
        )
        target = PutTarget(topic.resource, 0)
        for text in (b"one", b"two"):
            put = world.recorder.invoke("me", "put", topic="t", partition=0, ids=[text.decode()])
            await server.put(CALLER, target, [MessageBlock(text, 1)], timeout_s=60)
            world.recorder.ok(put)
        await world.crash(power=power)
        server = await world.start_server()
        while len(found) < 2:  # a read may end with its segment
            query = GetQuery(topic.resource, 0, len(found), 10, 1 << 20)
            result = await server.call("get", partial(_get, query), timeout_s=60)
            found.extend(bytes(block.payload) for block in result.blocks)

    history = World(5, NO_FAULTS).run(scenario)
    assert found == [b"one", b"two"]
    assert check(history) == []


def test_a_scenario_that_waits_for_nothing_is_a_deadlock() -> None:
    async def scenario(world: World) -> None:
        await world.loop.create_future()

    assert [each.name for each in check(World(1).run(scenario))] == ["deadlock"]


def test_a_seed_does_not_depend_on_the_order_of_hashes() -> None:
    code = "from opentalos.testing import run_seed; print(run_seed(11).digest())"
    digests = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout.strip()
        for hash_seed in ("1", "2")
    ]
    assert digests[0] == digests[1]
    assert len(digests[0]) == hashlib.sha256().digest_size * 2


def test_one_command_replays_a_seed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "opentalos.testing", "11", "--trace"],
        capture_output=True,
        check=True,
        text=True,
    )
    assert "seed 11: " in done.stdout
    assert "no anomalies" in done.stdout
    assert "> #0 " in done.stdout
