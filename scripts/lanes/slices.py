"""The slice of ``make test-all`` that one ``make test`` runs, chosen by the commit.

What the gate leaves out is cut, by the recorded seconds of each test function, into pieces of one
job each. A slice is one piece with real backends and up to two without, so both slots have work.
"""

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from scripts.lanes.jobs import LANES, ROOT, Job, selected

PIECE_S = 150.0  # of tests; the start of a session or a cluster comes on top, within 3 minutes
FUNCTION_S_MAX = 170.0  # a longer one fits into no slice: only ``make test-all`` runs it
OTHERS_MAX = 2  # pieces without backends, one after the other beside the one with them
CUT_LANES = ("single", "spark", "backends", "faults")


def exists(function: str, root: Path = ROOT) -> bool:
    """Whether a recorded test function is still there."""
    path, _, name = function.partition("::")
    file = root / path
    return file.exists() and bool(
        re.search(rf"def {re.escape(name.rpartition('::')[2])}\(", file.read_text())
    )


def in_gate(function: str, gate: Collection[str]) -> bool:
    """Whether the gate runs all of it: a folder of it, its file, or the function by name."""
    path = PurePosixPath(function.partition("::")[0])
    return function in gate or any(str(part) in gate for part in (path, *path.parents))


def pieces(functions: Sequence[tuple[str, float]]) -> Iterator[list[str]]:
    """Neighbours together, up to ``PIECE_S`` seconds."""
    piece: list[str] = []
    filled_s = 0.0
    for name, seconds in functions:
        if seconds > FUNCTION_S_MAX:
            continue
        if piece and filled_s + seconds > PIECE_S:
            yield piece
            piece, filled_s = [], 0.0
        piece.append(name)
        filled_s += seconds
    if piece:
        yield piece


def all_pieces(
    by_job: Mapping[str, Mapping[str, float]], gate: Collection[str], outside: Collection[str]
) -> list[Job]:
    """Every piece, in the order of the lanes.

    Args: outside: beginnings of names that no slice runs, for they need a set-up of their own.
    """
    found: list[Job] = []
    for lane in CUT_LANES:
        for job in LANES[lane]:
            left = [
                (name, seconds)
                for name, seconds in by_job.get(job.name, {}).items()
                if not in_gate(name, gate) and not name.startswith(tuple(outside)) and exists(name)
            ]
            for number, piece in enumerate(pieces(left), 1):
                found.append(selected(job, piece, f"slice-{job.name}-{number}"))
    return found


def chosen(jobs: Sequence[Job], commit: str) -> list[Job]:
    """The pieces that belong to a commit's hash: one with backends, at most two without."""
    backends, others = ([job for job in jobs if job.backends is kind] for kind in (True, False))
    rounds = max(1, len(backends), math.ceil(len(others) / OTHERS_MAX))
    turn = int(commit[:12] or "0", 16) % rounds
    return [*backends[turn::rounds], *others[turn::rounds]]
