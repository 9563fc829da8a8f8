"""Restarts that lend, beside restarts that wait: silences, and what happens if something fails."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from tests.simulation.lending_mutants import LENDING_MUTANTS
from tests.simulation.mutants import Mutant
from tests.simulation.proof import prove_caught
from tests.simulation.test_outage import CALM

from opentalos.testing.simulation.checks.checker import check
from opentalos.testing.simulation.clients.cluster_workload import ClusterAuditor
from opentalos.testing.simulation.clients.group_clients import Worker
from opentalos.testing.simulation.clients.message_clients import (
    Actor,
    IdempotentProducer,
    LiveTopic,
    Producer,
    Reader,
)
from opentalos.testing.simulation.clients.topics.admin import GROUPS, Admin
from opentalos.testing.simulation.cluster.network import ANY_PLACE, META, Way
from opentalos.testing.simulation.cluster.world import ClusterConfig, ClusterWorld
from opentalos.testing.simulation.history import History
from opentalos.testing.simulation.seed_run import run_cluster_seed

WARM_S = 5.0  # every server has its share by then
DOWN_S = 2.0  # from the end of a process to the start of the next one
RETURN_S = 10.0  # at most, until nothing is lent any more
GIVEN_UP_S = CALM.limits.restart_s + 2.0
LOOK_S = 0.02
SILENCE_S = 0.5  # of one partition that was lent, at most
LENDING = replace(CALM, lending=True)
WAITING = replace(CALM, lending=False)

Owners = dict[str, tuple[str, ...]]
Trouble = Callable[["Scene"], Awaitable[None]]


class Scene:
    """A cluster under load; ``trouble`` is done to it in the middle."""

    def __init__(self, seed: int, config: ClusterConfig, trouble: Trouble) -> None:
        self.world, self._trouble = ClusterWorld(seed, config), trouble
        self.began_s = self.ended_s = 0.0
        self.before: Owners = {}
        self.after: Owners = {}
        self.left: dict[str, int] = {}  # loans at the end
        self.history: History = self.world.play(self._play)

    def owners(self) -> Owners:
        """Who serves each partition, as published."""
        return {uuid: each.owners for uuid, each in self.world.control.assignments().items()}

    def lent(self) -> dict[str, int]:
        """How many partitions are lent, by lender."""
        found: dict[str, int] = {}
        for record in self.world.control.assignments().values():
            for lender in record.lent.values():
                found[lender] = found.get(lender, 0) + 1
        return found

    def has(self, host: str) -> int:
        """How many partitions a host has."""
        return sum(owners.count(host) for owners in self.owners().values())

    async def until(self, reached: Callable[[], bool], within_s: float) -> None:
        """Wait for something."""
        until_s = self.world.loop.time() + within_s
        while not reached():
            assert self.world.loop.time() < until_s, "it did not happen in time"
            await asyncio.sleep(LOOK_S)

    async def restart(self, host: str) -> None:
        """One planned restart, until everything is as before."""
        await self.world.stop(host)
        await asyncio.sleep(DOWN_S)
        await self.world.start(host)
        await self.until(lambda: not self.lent(), RETURN_S)
        await asyncio.sleep(0.5)

    async def _play(self, world: ClusterWorld) -> None:
        follower = asyncio.create_task(world.control.follow(), name="follow records")
        await world.start_all()
        topics: list[LiveTopic] = []
        admin = Admin(world, topics)
        topics.append(await admin.create("synced", partitions=8, flushed=False))
        topics.append(await admin.create("flushed", partitions=6, flushed=True))
        clients: list[Actor] = [Producer(world, f"plain{n}", topics) for n in range(12)]
        clients += [IdempotentProducer(world, f"exact{n}", topics, n + 1) for n in range(4)]
        clients += [Reader(world, f"reader{n}", topics) for n in range(2)]
        clients += [Worker(world, f"{group}-w", group, topics) for group in GROUPS]
        tasks = [asyncio.create_task(each.run(), name=each.name) for each in clients]
        await asyncio.sleep(WARM_S)
        self.before, self.began_s = self.owners(), world.loop.time()
        await self._trouble(self)
        self.after, self.ended_s = self.owners(), world.loop.time()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await world.heal()
        auditor = ClusterAuditor(world, topics)
        await auditor.probe()
        await auditor.check_balance()
        self.left = self.lent()
        await auditor.read_all()
        await world.stop_all()
        await auditor.verify()
        follower.cancel()

    def silence_s(self) -> float:
        """The longest time without an acknowledged put of any partition."""
        acks: dict[tuple[str, int], list[float]] = {}
        for each in self.history.operations:
            if each.action == "put" and each.ok and self.began_s <= each.ended_s <= self.ended_s:
                place = (each.args["topic"], each.args["partition"])
                acks.setdefault(place, [self.began_s]).append(each.ended_s)
        assert len(acks) == 14
        return max(
            later - earlier
            for times in acks.values()
            for earlier, later in pairwise([*sorted(times), self.ended_s])
        )


async def _rolling_restart(scene: Scene) -> None:
    for host in list(scene.world.hosts):
        await scene.restart(host)
        assert scene.owners() == scene.before


def test_lending_is_silent_for_a_moment_and_waiting_as_long_as_the_restart() -> None:
    """The same rolling restart both ways; afterwards every partition is where it was."""
    lending = Scene(0, LENDING, _rolling_restart)
    waiting = Scene(0, WAITING, _rolling_restart)
    for scene in (lending, waiting):
        assert not check(scene.history)
        assert scene.after == scene.before
    assert lending.silence_s() <= SILENCE_S
    assert waiting.silence_s() >= DOWN_S


async def _two_in_turn(scene: Scene) -> None:
    world = scene.world
    await world.stop("s1")
    assert scene.lent()["s1"]
    await world.stop("s2")  # a borrower
    assert set(scene.lent()) == {"s1", "s2"}
    await world.start("s1")
    await world.start("s2")
    await scene.until(lambda: not scene.lent(), RETURN_S)
    await scene.until(lambda: scene.owners() == scene.before, RETURN_S)


async def _dies_while_taking_back(scene: Scene) -> None:
    world = scene.world
    await world.stop("s1")
    await asyncio.sleep(DOWN_S)
    await world.start("s1")
    await scene.until(lambda: scene.has("s1") > 0, RETURN_S)
    await world.crash_host("s1")
    await scene.until(lambda: not scene.has("s1"), RETURN_S)
    await scene.until(lambda: not scene.lent(), GIVEN_UP_S)
    await world.start("s1")
    await scene.until(lambda: scene.has("s1") > 0, RETURN_S)


async def _borrower_dies(scene: Scene) -> None:
    world = scene.world
    mine = scene.has("s1")
    await world.stop("s1")
    await world.crash_host("s2")
    await scene.until(lambda: not scene.has("s2"), RETURN_S)
    assert scene.lent() == {"s1": mine}
    await world.start("s1")
    await scene.until(lambda: not scene.lent(), RETURN_S)
    assert scene.has("s1") >= mine


async def _coordination_is_away(scene: Scene) -> None:
    world = scene.world
    ways = [Way(ANY_PLACE, META), Way(META, ANY_PLACE)]
    await world.stop("s1")
    world.network.cut(ways)
    await asyncio.sleep(LENDING.session_s * 2)
    starting = asyncio.ensure_future(world.start("s1"))
    await asyncio.sleep(DOWN_S)
    world.network.mend(ways)
    await starting
    await scene.until(lambda: not scene.lent(), RETURN_S + GIVEN_UP_S)
    await scene.until(lambda: scene.has("s1") > 0, RETURN_S)


async def _never_returns(scene: Scene) -> None:
    world = scene.world
    world.gone["s1"] = None
    await world.stop("s1")
    assert scene.lent()
    assert "s1" in world.control.ring()
    await scene.until(lambda: not scene.lent(), GIVEN_UP_S)
    await scene.until(lambda: "s1" not in world.control.ring(), RETURN_S)
    assert not scene.has("s1")


async def _controller_dies_while_lending(scene: Scene) -> None:
    world = scene.world
    leader = world.control.controller()
    victim = next(host for host in world.hosts if host != leader)
    stopping = asyncio.ensure_future(world.stop(victim))
    await scene.until(lambda: bool(scene.lent()), RETURN_S)
    await world.crash_host(leader)
    await stopping
    await world.start(victim)
    await world.start(leader)
    await scene.until(lambda: not scene.lent(), RETURN_S)
    await scene.until(lambda: scene.has(victim) > 0, RETURN_S)


TROUBLES = (
    _two_in_turn,
    _dies_while_taking_back,
    _borrower_dies,
    _coordination_is_away,
    _never_returns,
    _controller_dies_while_lending,
)


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.__name__.strip("_"))
def test_a_loan_ends_whatever_happens_meanwhile(trouble: Trouble) -> None:
    scene = Scene(1, LENDING, trouble)
    assert not check(scene.history)
    assert not scene.left


@pytest.mark.parametrize("mutant", LENDING_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_caught_by_name(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(mutant.config, ClusterConfig)
    prove_caught(mutant, mutant.config, run_cluster_seed, monkeypatch)
