"""What a server of a simulated cluster may rely on: sessions, the network, its peers."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from opentalos.model.errors import OutcomeUnknown, StoreUnavailable, VersionConflict
from opentalos.model.message import Durability
from opentalos.testing.simulation.cluster.linked_stores import LinkedFileStore
from opentalos.testing.simulation.cluster.network import (
    ANY_PLACE,
    FILES,
    META,
    Link,
    SimulatedNetwork,
    Way,
)
from opentalos.testing.simulation.cluster.peers import Directory, SimulatedPeers, address_of
from opentalos.testing.simulation.cluster.session_meta import SessionMetaStore
from opentalos.testing.simulation.loop import SimulatedProcess, SimulationLoop
from opentalos.testing.simulation.stores.disk import SimulatedDisk
from opentalos.testing.simulation.stores.faults import ClusterFaults, FileFaults, MetaFaults
from opentalos.testing.simulation.stores.faulty_files import FaultyFileStore

SESSION_S = 2.0
TO_META = Way("s1", META)
SEEDS = range(10)


class Scene:
    """A network with a meta store and any number of hosts."""

    def __init__(self, seed: int) -> None:
        self.loop = SimulationLoop()
        self.disk = SimulatedDisk(self.loop, random.Random(seed))
        self.network = SimulatedNetwork(self.disk)
        self.processes: dict[str, SimulatedProcess] = {}

    def meta(self, host: str) -> SessionMetaStore:
        process = self.processes[host] = self.loop.process(host)
        link = Link(self.network, Way(host, META))
        return SessionMetaStore(process, MetaFaults(), link, SESSION_S)


def play(scenario: Callable[[Scene], Awaitable[None]], seed: int = 1) -> None:
    scene = Scene(seed)

    async def main() -> None:
        await scenario(scene)

    scene.loop.run(main())


def names(scene: Scene) -> list[str]:
    return list(scene.disk.records.records)


def test_a_session_lasts_while_its_process_runs() -> None:
    async def scenario(scene: Scene) -> None:
        meta = scene.meta("s1")
        await meta.create("servers/s1", b"", ephemeral=True)
        for _ in range(20):
            await asyncio.sleep(1)
            session = meta.session()
            assert session.connected
            assert scene.loop.time() <= session.valid_until_s
        assert names(scene) == ["servers/s1"]
        assert meta.session().incarnation == 1

    play(scenario)


def test_a_paused_process_knows_at_once_by_its_clock_and_hears_it_later() -> None:
    async def scenario(scene: Scene) -> None:
        meta = scene.meta("s1")
        await meta.create("servers/s1", b"", ephemeral=True)
        await meta.create("kept", b"")
        scene.processes["s1"].pause()
        await asyncio.sleep(SESSION_S + 0.1)
        assert names(scene) == ["kept"]
        session = meta.session()
        assert scene.loop.time() > session.valid_until_s
        assert session.connected
        assert not session.lost
        with pytest.raises(StoreUnavailable):
            await meta.create("servers/s1", b"", ephemeral=True)
        scene.processes["s1"].resume()
        await asyncio.sleep(2)
        session = meta.session()
        assert session.incarnation == 2
        assert scene.loop.time() <= session.valid_until_s
        await meta.create("servers/s1", b"", ephemeral=True)

    play(scenario)


def test_a_session_is_never_valid_longer_for_the_client_than_for_the_service() -> None:
    async def scenario(scene: Scene) -> None:
        meta = scene.meta("s1")
        await meta.create("servers/s1", b"", ephemeral=True)
        await asyncio.sleep(scene.disk.rng.random() * 3)
        ways = [TO_META, TO_META.back]
        scene.network.cut(scene.disk.rng.choice([ways, ways[:1]]))
        for _ in range(400):
            await asyncio.sleep(0.01)
            if scene.loop.time() <= meta.session().valid_until_s:
                assert names(scene) == ["servers/s1"]

    for seed in SEEDS:
        play(scenario, seed)


def test_a_crashed_process_keeps_its_records_until_the_session_runs_out() -> None:
    async def scenario(scene: Scene) -> None:
        meta = scene.meta("s1")
        await meta.create("servers/s1", b"", ephemeral=True)
        scene.processes["s1"].crash()
        meta.lose_process()
        await asyncio.sleep(SESSION_S / 4)
        assert names(scene) == ["servers/s1"]
        await asyncio.sleep(SESSION_S)
        assert names(scene) == []

    play(scenario)


def test_a_service_that_was_down_gives_everybody_the_full_time() -> None:
    async def scenario(scene: Scene) -> None:
        meta = scene.meta("s1")
        await meta.create("servers/s1", b"", ephemeral=True)
        ways = [Way(ANY_PLACE, META), Way(META, ANY_PLACE)]
        scene.network.cut(ways)
        await asyncio.sleep(3 * SESSION_S)
        assert scene.loop.time() > meta.session().valid_until_s
        assert not meta.session().connected
        scene.network.mend(ways)
        await asyncio.sleep(2)
        assert names(scene) == ["servers/s1"]
        assert meta.session().incarnation == 1
        assert meta.session().connected

    play(scenario)


def test_a_watch_stands_still_while_cut_off_and_catches_up() -> None:
    async def scenario(scene: Scene) -> None:
        meta, other = scene.meta("s1"), scene.meta("s2")
        seen: list[int] = []

        async def follow() -> None:
            while True:
                try:
                    async for state in meta.watch("a"):
                        versions = [record.version for record in state.values()]
                        seen.append(max(versions, default=0))
                except StoreUnavailable:
                    continue

        scene.processes["s1"].create_task(follow())
        version = await other.create("a/b", b"")
        await asyncio.sleep(1)
        scene.network.cut([TO_META])
        version = await other.replace("a/b", b"x", version)
        await asyncio.sleep(10)
        before = list(seen)
        version = await other.replace("a/b", b"y", version)
        scene.network.mend_all()
        await asyncio.sleep(10)
        assert before[-1] < version
        assert seen[-1] == version
        assert seen == sorted(seen)

    for seed in SEEDS:
        play(scenario, seed)


def test_a_write_over_a_cut_ends_as_unknown_or_as_not_done() -> None:
    ends: set[tuple[str, bool]] = set()

    async def scenario(scene: Scene) -> None:
        meta = scene.meta("s1")
        await asyncio.sleep(0.1)
        cut = scene.disk.rng.choice([TO_META, TO_META.back])
        scene.network.cut([cut])
        with pytest.raises((OutcomeUnknown, StoreUnavailable)) as raised:
            await meta.create("a", b"")
        ends.add((type(raised.value).__name__, bool(names(scene))))

    for seed in range(40):
        play(scenario, seed)
    assert ends == {
        ("OutcomeUnknown", True),
        ("OutcomeUnknown", False),
        ("StoreUnavailable", False),
    }


def test_errors_of_the_service_come_through() -> None:
    async def scenario(scene: Scene) -> None:
        meta = scene.meta("s1")
        with pytest.raises(VersionConflict):
            await meta.replace("a", b"", 7)

    play(scenario)


def test_a_commit_over_a_cut_is_unknown_and_kills_the_file() -> None:
    async def scenario(scene: Scene) -> None:
        process = scene.loop.process("s1")
        inner = FaultyFileStore(scene.disk, process, FileFaults())
        files = LinkedFileStore(inner, Link(scene.network, Way("s1", FILES)))
        file = await files.create("t/0", durability=Durability.SYNCED)
        await file.commit([b"kept"])
        way = Way(FILES, "s1")
        scene.network.cut([way])
        with pytest.raises(OutcomeUnknown):
            await file.commit([b"maybe"])
        scene.network.mend([way])
        with pytest.raises(OutcomeUnknown):
            await file.commit([b"never"])
        assert await files.recover("t/0", deadline_s=5) == len(b"keptmaybe")

    play(scenario)


def test_only_a_dead_process_refuses() -> None:
    class Stub:
        listening = True

    async def scenario(scene: Scene) -> None:
        directory = Directory(scene.network)
        peers = SimulatedPeers(directory, "s1")
        stub, address = Stub(), address_of("s2")
        assert await peers.refuses(address)
        directory.add(address, stub)  # type: ignore[arg-type]  # only ``listening`` is asked
        assert not await peers.refuses(address)
        scene.network.cut([Way("s2", "s1")])
        stub.listening = False
        assert not await peers.refuses(address)
        with pytest.raises(StoreUnavailable):
            await peers.reach(address)
        scene.network.mend_all()
        assert await peers.refuses(address)

    play(scenario)


def test_cuts_overlap_and_have_a_direction() -> None:
    async def scenario(scene: Scene) -> None:
        network, there, back = scene.network, Way("s1", "s2"), Way("s2", "s1")
        network.cut([there])
        network.cut([there, back])
        network.mend([there])
        assert not network.passes(there)
        network.mend([there])
        assert network.passes(there)
        assert not network.passes(back)
        assert not network.down(META)

    play(scenario)


def test_cluster_faults_repeat_with_their_seed() -> None:
    assert ClusterFaults.draw(random.Random(3)) == ClusterFaults.draw(random.Random(3))
