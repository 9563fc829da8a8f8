"""One random damage to the data directory of a stopped server, and what became of it.

``python -m tests.faults.damage SEED...`` makes the world of each seed, damages it and prints how
that ended; ``tests/faults/test_damages.py`` does so for many. A seed chooses the same damage of the
same file each time; names, times and random bytes in the files are others.
"""

import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.faults.damages.choice import apply, choose
from tests.faults.damages.evidence import evidence_of
from tests.faults.damages.judge import UNHEARD, Evidence, Observed, Verdict, judge
from tests.faults.damages.outcome import Outcome, summary
from tests.faults.damages.probe import (
    COMPARED_S,
    Probe,
    log_lines,
    moved,
    noted_lines,
    verify_lines,
)
from tests.faults.damages.world import Shape, World, make_world, shape_of
from tests.server_process import ServerProcess
from tests.waiting import WaitEnded, elapse

UNUSED_EVERY = 5  # after so many damages one is first met by the server's upkeep, then by clients


@dataclass
class Campaign:
    """Worlds by their shapes, each made when the first damage needs it."""

    folder: Path
    worlds: dict[Shape, World] = field(default_factory=dict)
    usual: dict[Shape, Mapping[str, float]] = field(default_factory=dict)  # counters without damage
    noted: dict[Shape, list[str]] = field(default_factory=dict)  # by verify, without damage
    ended: Counter[Verdict] = field(default_factory=Counter)

    def world(self, shape: Shape) -> World:
        if shape not in self.worlds:
            world = make_world(self.folder / f"world-{len(self.worlds)}", shape)
            self.worlds[shape] = world
            observed, self.usual[shape] = self._observe(
                world, self._copied(world, f"whole-{len(self.worlds)}")
            )
            judgement = judge(world.known.expected, observed, Evidence(()))
            assert judgement.verdict is Verdict.WHOLE, f"without damage: {judgement}"
            assert not observed.verify, observed.verify
            with self._copy_of(world, "whole") as data:
                self.noted[shape] = noted_lines(data)
        return self.worlds[shape]

    def run(self, seed: int) -> Outcome:
        """Damage a copy of the seed's world, start a server on it and judge."""
        shape = shape_of(seed)
        world = self.world(shape)
        damage = choose(seed, world.targets())
        folder = self._copied(world, f"seed-{seed}")
        apply(damage, folder / "data", world.copies)
        evidence = evidence_of(world, damage, folder / "data")
        observed, counters = self._observe(world, folder, unused=seed % UNUSED_EVERY == 0)
        more = moved(counters, self.usual[shape])
        observed = replace(observed, counters=more)
        judgement = judge(world.known.expected, observed, evidence)
        if judgement.verdict is Verdict.MISSED:  # the start may have cut what was to be found
            with self._copy_of(world, f"seed-{seed}-verify") as data:
                apply(damage, data, world.copies)
                new = [line for line in noted_lines(data) if line not in self.noted[shape]]
            observed = replace(observed, verify=[*new, *observed.verify])
            judgement = judge(world.known.expected, observed, evidence)
        self.ended[judgement.verdict] += 1
        shutil.rmtree(folder)
        if judgement.verdict in UNHEARD:  # kept for a look, as the server found it
            apply(damage, self._copied(world, folder.name) / "data", world.copies)
        return Outcome(seed, str(shape), damage, judgement, observed)

    @contextmanager
    def _copy_of(self, world: World, name: str) -> Iterator[Path]:
        """A data directory that no server has touched since; removed at the end."""
        folder = self._copied(world, name)
        yield folder / "data"
        shutil.rmtree(folder)

    def _copied(self, world: World, name: str) -> Path:
        folder = self.folder / name
        shutil.copytree(world.data, folder / "data")
        return folder

    def _observe(
        self, world: World, folder: Path, *, unused: bool = False
    ) -> tuple[Observed, Mapping[str, float]]:
        """What a server says on a data directory, and its counters of damage."""
        server = ServerProcess(folder, world.config)
        try:
            server.start()
        except WaitEnded:
            raise
        except AssertionError:  # it ended instead
            said = "\n".join(log_lines(folder / "server.stderr")) or "nothing"
            return Observed(refusal=said, verify=verify_lines(server.data)), {}
        probe = Probe(server, world.known.asked, world.known.counts())
        if unused:
            elapse("the server looks at what it has stored, before anyone uses it", COMPARED_S)
        try:
            seen, counters = probe.observe(), probe.counters()
        finally:
            probe.client.close()
            server.stop()
        log = log_lines(folder / "server.stderr")
        return Observed(**seen, log=log, verify=verify_lines(server.data)), counters


def main(seeds: Iterable[int]) -> int:
    """Print how the damages of these seeds end; 1 if one is unheard."""
    campaign = Campaign(Path(tempfile.mkdtemp(prefix="damages-")))
    for seed in seeds:
        sys.stdout.write(f"{campaign.run(seed)}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{summary(campaign.ended)}; files are in {campaign.folder}\n")
    return 1 if any(campaign.ended[verdict] for verdict in UNHEARD) else 0


if __name__ == "__main__":
    sys.exit(main(map(int, sys.argv[1:])))
