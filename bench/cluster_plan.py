"""Durations and repeats of the cluster benchmarks."""

from dataclasses import dataclass
from pathlib import Path

from bench.backends import Backends


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """``work``: an empty folder. ``binary``: the load generator."""

    work: Path
    backends: Backends
    binary: Path
    seconds: int = 10
    repeats: int = 5
    kills: int = 20
    drains: int = 8
    idle_seal_s: int = 5
    partitions: int = 1_000  # that a new owner takes over at once


def quick(plan: ClusterPlan) -> ClusterPlan:
    """A short variant, as a smoke test."""
    return ClusterPlan(
        work=plan.work,
        backends=plan.backends,
        binary=plan.binary,
        seconds=3,
        repeats=1,
        kills=2,
        drains=1,
        partitions=100,
    )
