"""How much a test does in ``make check`` and ``make test``, and how much in ``make test-all``.

Which tests of real processes ``make test`` runs is in ``tests/tiers.toml``. This is for tests that
run in both and differ by a count: of seeds, kills, or catches of a mutant.
"""

import os

WHOLE = os.environ.get("OPENTALOS_TIER") == "all"  # set by scripts/run_lanes.py --whole


def size(gate: int, whole: int) -> int:
    """A count that depends on the tier."""
    return whole if WHOLE else gate
