"""Checks of a cluster as a whole: what an announced restart may cost."""

from collections.abc import Iterator

from opentalos.testing.checks.anomaly import Anomaly
from opentalos.testing.history import History, Note

IN_TIME_S = 1.0  # a server that is back so long before its time cannot have been given up


def moved_for_announced_restarts(history: History) -> Iterator[Anomaly]:
    """A partition moved away from a server that had announced its restart and was back in time.

    Not judged: a server that is to be emptied.
    """
    assigned, drains = history.noted("assigned"), history.noted("drain")
    for announced in history.noted("announced"):
        host, began_s = announced.args["host"], announced.at_s
        if any(each.args["host"] == host and each.at_s < began_s for each in drains):
            continue
        until_s = _back_s(history, announced)
        owners: dict[str, list[str]] = {}
        for note in assigned:
            topic, now = note.args["topic"], note.args["owners"]
            if began_s < note.at_s <= until_s:
                for partition, (before, after) in enumerate(
                    zip(owners.get(topic, ()), now, strict=False)
                ):
                    if before == host and after != host:
                        yield Anomaly(
                            "moved-for-announced-restart",
                            f"{topic}/{partition} went from {host} to {after} at {note.at_s:.3f}; "
                            f"announced at {began_s:.3f}, back at {until_s:.3f}",
                        )
            owners[topic] = now


def _back_s(history: History, announced: Note) -> float:
    """When the server was back; the announcement's own time if it was late or never came."""
    for note in history.noted("started"):
        if note.args.get("host") == announced.args["host"] and note.at_s > announced.at_s:
            in_time = note.at_s <= announced.at_s + announced.args["wait_s"] - IN_TIME_S
            return note.at_s if in_time else announced.at_s
    return announced.at_s
