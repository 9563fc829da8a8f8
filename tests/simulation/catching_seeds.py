"""Which seeds catch each mutant: its proof tries these first, then the others.

Any seeds prove a mutant, so their order changes no verdict: it saves the seeds that show nothing.
Where code has changed a seed may show something else, and then a proof takes as long as it does
without this file. ``OPENTALOS_KEEP_SEEDS=1 python -m pytest tests/simulation -k caught`` tries all
seeds from 0 on and writes those that catch to ``catching_seeds.json``.
"""

import functools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

FILE = Path(__file__).with_name("catching_seeds.json")
SEEDS_MAX = 40
KEEPS = bool(os.environ.get("OPENTALOS_KEEP_SEEDS"))


@functools.cache
def _stored() -> Mapping[str, Sequence[int]]:
    """Seeds by the mutant's name."""
    found: dict[str, list[int]] = json.loads(FILE.read_text())
    return found


def in_order(mutant: str) -> list[int]:
    """All seeds that may prove it, those first that have."""
    seeds = range(SEEDS_MAX)
    first = [] if KEEPS else [seed for seed in _stored().get(mutant, ()) if seed in seeds]
    return [*first, *(seed for seed in seeds if seed not in first)]


def keep(mutant: str, caught: Sequence[int]) -> None:
    """Write down what has caught it, if that was asked for."""
    if KEEPS:
        kept = {**json.loads(FILE.read_text()), mutant: list(caught)}
        lines = (f"  {json.dumps(name)}: {seeds}" for name, seeds in sorted(kept.items()))
        FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
