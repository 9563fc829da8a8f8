"""Damages to the stores of a cluster, each to those of a cluster of its own."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from subprocess import CompletedProcess

from tests.conftest import RunningBackends
from tests.faults.damages.choice import Damage, choose
from tests.faults.damages.cluster import SERVER, ClusterWorld, make_cluster_world
from tests.faults.damages.judge import Evidence, Observed, Verdict, judge
from tests.faults.damages.outcome import Outcome
from tests.faults.damages.probe import Probe, log_lines, moved, noted_of
from tests.waiting import WaitEnded, elapse, eventually

from opentalos.log.journal.upkeep import PASS_S, SEARCH_FIRST_S

JOURNALS = ("on", "off")  # of even and odd seeds
# A partition has to be assigned before it opens.
PATIENCE_TRIES = 200
RUNNING = "servers run on this storage"
SEARCHED_S = SEARCH_FIRST_S + 3 * PASS_S


@dataclass
class ClusterCampaign:
    """One damage after the other."""

    folder: Path
    backends: RunningBackends
    ended: Counter[Verdict] = field(default_factory=Counter)
    usual: dict[str, Mapping[str, float]] = field(default_factory=dict)  # counters without damage

    def run(self, seed: int) -> Outcome:
        """Make a cluster, damage what it stored, start its server again and judge."""
        journal = JOURNALS[seed % len(JOURNALS)]
        if journal not in self.usual:
            self._run_whole(journal)
        world = make_cluster_world(self.folder / f"seed-{seed}", self.backends, journal)
        try:
            damage = choose(seed, world.targets())
            evidence = world.evidence(damage)
            observed = self._damaged(world, damage, self.usual[journal])
        finally:
            world.close()
        judgement = judge(world.known.expected, observed, evidence)
        self.ended[judgement.verdict] += 1
        return Outcome(seed, f"cluster, journal {journal}", damage, judgement, observed)

    def _run_whole(self, journal: str) -> None:
        world = make_cluster_world(self.folder / f"whole-{journal}", self.backends, journal)
        try:
            observed, self.usual[journal] = observe(world)
        finally:
            world.close()
        judgement = judge(world.known.expected, observed, Evidence(()))
        assert judgement.verdict is Verdict.WHOLE, f"without damage: {judgement}"
        assert not observed.verify, observed.verify

    def _damaged(self, world: ClusterWorld, damage: Damage, usual: Mapping[str, float]) -> Observed:
        usually = noted(world)
        problem = world.damage(damage)
        if problem:  # a command that nobody can start finds nothing either
            return Observed(refusal=problem, verify=[problem])
        new = [line for line in noted(world) if line not in usually]
        observed, counters = observe(world)
        verify = [*new, *observed.verify]
        return replace(observed, counters=moved(counters, usual), verify=verify)


def noted(world: ClusterWorld) -> list[str]:
    """Everything that ``talos log verify`` notes; the first start cuts a torn tail."""
    return noted_of(verified(world))


def verified(world: ClusterWorld) -> "CompletedProcess[str]":
    """Run the command once the sessions have ended that a restored ZooKeeper knows."""

    def done() -> "CompletedProcess[str] | None":
        found = world.cluster.verify()
        return None if RUNNING in found.stderr else found

    return eventually("no server runs on the storage", done)


def observe(world: ClusterWorld) -> tuple[Observed, Mapping[str, float]]:
    """What the cluster's server says, and its counters of damage."""
    server = world.cluster.servers[SERVER]
    stderr = server.folder / "server.stderr"
    before = stderr.stat().st_size
    try:
        server.start()
        world.cluster.wait_settled()
    except WaitEnded:
        raise
    except AssertionError:  # it ended instead
        said = "\n".join(log_lines(stderr, before)) or "nothing"
        return Observed(refusal=said), {}
    probe = Probe(server, world.known.asked, world.known.counts(), PATIENCE_TRIES)
    try:
        seen = probe.observe()
        elapse("the server searches for journals that no manifest names", SEARCHED_S)
        counters = probe.counters()
    finally:
        probe.client.close()
        server.stop()
    done = verified(world)
    verify = (done.stdout + done.stderr).splitlines() if done.returncode else []
    return Observed(**seen, log=log_lines(stderr, before), verify=verify), counters
