"""Checks of restarts that lend: what was lent returns, and nothing else moves."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from opentalos.testing.simulation.checks.anomaly import Anomaly
from opentalos.testing.simulation.history import History, Note

STEADY_S = 3.0  # nothing happened for so long before the server began to stop
LENT_S = 1.0  # after the stop nothing is the server's any more
BACK_S = 5.0  # after the server answers requests, everything is its own again

# Whatever may move a partition, delay a move, or keep a server from taking part.
_DISTURBING = frozenset({
    "process-crash", "power-loss", "pause", "cut", "cut-meta", "cut-storage", "isolated",
    "meta-down", "sessions-end", "drain", "leaves", "joins", "start-failed", "stop-failed",
    "slow-link", "stopping", "started", "resume",
})  # fmt: skip
Owners = dict[str, list[str]]  # of each partition, by topic


class _Restart(NamedTuple):
    """``host`` began to stop at ``began_s``, was gone at ``gone_s``, answered at ``back_s``."""

    host: str
    began_s: float
    gone_s: float
    back_s: float


def loans(history: History) -> Iterator[Anomaly]:
    """What lending restarts did that nothing disturbed."""
    assigned = history.noted("assigned")
    deleted = {note.args["topic"] for note in history.noted("forgotten")}
    for restart in _restarts(history):
        host, began_s, gone_s, back_s = restart
        known_s = gone_s + LENT_S
        if (
            back_s > known_s
            and _has_neighbour(history, restart)
            and _calm(history, restart, known_s)
        ):
            for topic, owners in _owners(assigned, known_s).items():
                for partition, name in enumerate(owners):
                    if name == host and topic not in deleted:
                        yield Anomaly(
                            "not-lent",
                            f"{topic}/{partition} waits for {host}, gone at {gone_s:.3f}",
                        )
        before = _owners(assigned, began_s)
        steady = _owners(assigned, began_s - STEADY_S) == before
        if not steady or not _calm(history, restart, back_s + BACK_S):
            continue
        after = _owners(assigned, back_s + BACK_S)
        for topic in sorted(before.keys() - deleted):
            for partition, (former, now) in enumerate(
                zip(before[topic], after[topic], strict=False)
            ):
                if former != now:
                    yield Anomaly(
                        "not-taken-back" if former == host else "moved-by-lending",
                        f"{topic}/{partition} of {former} is {now}'s after {host} restarted at "
                        f"{began_s:.3f} and was back at {back_s:.3f}",
                    )


def _restarts(history: History) -> Iterator[_Restart]:
    """Lending restarts of servers that were back in time."""
    started = history.noted("started")
    for lent in history.noted("lends"):
        host, gone_s = lent.args["host"], lent.at_s
        times = (note.at_s for note in started if note.args["host"] == host)
        back_s = next((at_s for at_s in times if at_s > gone_s), float("inf"))
        if back_s <= gone_s + lent.args["wait_s"]:
            yield _Restart(host, lent.args["began_s"], gone_s, back_s)


def _calm(history: History, restart: _Restart, until_s: float) -> bool:
    """Whether nothing else happened around a restart."""
    own = {("stopping", restart.began_s), ("started", restart.back_s)}
    return not any(
        note.kind in _DISTURBING
        and restart.began_s - STEADY_S <= note.at_s <= until_s
        and ((note.kind, note.at_s) not in own or note.args["host"] != restart.host)
        for note in history.notes
    )


def _has_neighbour(history: History, restart: _Restart) -> bool:
    """Whether another server was registered all the time, so that there was one to lend to."""
    known: set[str] = set()
    for note in history.noted("registered"):
        if note.at_s > restart.gone_s:
            break
        if note.at_s > restart.began_s and not {*note.args["servers"]} - {restart.host}:
            return False
        known = {*note.args["servers"]} - {restart.host}
    return bool(known)


def _owners(assigned: Sequence[Note], at_s: float) -> Owners:
    found: Owners = {}
    for note in assigned:
        if note.at_s <= at_s:
            found[note.args["topic"]] = note.args["owners"]
    return found
