"""The longest stall of the event loop under steady load."""

from collections.abc import Iterator

from bench import soak
from bench.plan import Plan
from bench.report import Figure, at_most


def longest_stall(plan: Plan) -> Iterator[Figure]:
    """5,000 synced puts/s and a reader; a 1 ms timer in the server's loop measures."""
    work = plan.folder("stalls")
    work.mkdir(parents=True)
    result = soak.run(plan.stall_seconds, work)
    yield at_most(
        f"longest loop stall in {plan.stall_seconds} s",
        "ms",
        soak.STALL_GOAL_MS,
        [result.longest_stall_ms],
        seconds_above_goal=result.seconds_above_goal,
        errors=float(result.load["errors"]),
        p99_ms=result.load["p99_us"] / 1e3,
        rss_MiB_first=result.rss_mib[0],
        rss_MiB_last=result.rss_mib[-1],
        server_cpu_s=result.server_cpu_s,
        client_cpu_s=result.load["cpu_s"],
        collections=float(sum(result.collections)),
        longest_collection_ms=result.longest_collection_ms,
    )
