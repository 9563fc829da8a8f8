"""Checks of a cluster as a whole: an announced restart moves no partition."""

from collections.abc import Iterator

from opentalos.testing.simulation.checks.anomaly import Anomaly
from opentalos.testing.simulation.history import History, Note

IN_TIME_S = 1.0  # a server back this long before its deadline cannot have been declared dead
STEADY_S = 5.0  # a plan may be published this long after the event it reacts to
IN_FLIGHT_S = 2.0  # a planned move may be on its way to the coordination service this long


def moved_for_announced_restarts(history: History) -> Iterator[Anomaly]:
    """A partition moved away from a server that had announced its restart and was back in time.

    Not judged: a server that is being drained, or that crashed or disappeared shortly before; a
    planned move that appears right after the announcement, since it was decided before it.
    """
    assigned, drains = history.noted("assigned"), history.noted("drain")
    for announced in history.noted("announced"):
        host, began_s = announced.args["host"], announced.at_s
        if any(each.args["host"] == host and each.at_s < began_s for each in drains):
            continue
        if not _steady(history, host, began_s):
            continue
        until_s = _back_s(history, announced)
        owners: dict[str, list[str]] = {}
        for note in assigned:
            topic, now = note.args["topic"], note.args["owners"]
            planned = note.args.get("planned", ()) if note.at_s < began_s + IN_FLIGHT_S else ()
            if began_s < note.at_s <= until_s:
                for partition, (before, after) in enumerate(
                    zip(owners.get(topic, ()), now, strict=False)
                ):
                    if before == host and after != host and partition not in planned:
                        yield Anomaly(
                            "moved-for-announced-restart",
                            f"{topic}/{partition} moved from {host} to {after} at "
                            f"{note.at_s:.3f}: its restart was announced at {began_s:.3f} and "
                            f"it was back at {until_s:.3f}",
                        )
            owners[topic] = now


def _back_s(history: History, announced: Note) -> float:
    """When the server was back; the time of the announcement if it was late or never came back.

    Its time may count from when it began to stop: its port refuses calls from then on.
    """
    host, at_s = announced.args["host"], announced.at_s
    stops = (note.at_s for note in history.noted("stopping") if note.args["host"] == host)
    stop_s = max((stop_s for stop_s in stops if stop_s <= at_s), default=at_s)
    for note in history.noted("registered"):
        if host in note.args["servers"] and note.at_s > at_s:
            in_time = note.at_s <= stop_s + announced.args["wait_s"] - IN_TIME_S
            return note.at_s if in_time else at_s
    return at_s


def _steady(history: History, host: str, announced_s: float) -> bool:
    """Whether the server was registered for some time before it began to stop."""
    stops = [note.at_s for note in history.noted("stopping") if note.args["host"] == host]
    stop_s = max((at_s for at_s in stops if at_s <= announced_s), default=announced_s)
    crashes = (note.at_s for note in history.noted("process-crash") if note.args["host"] == host)
    known = False
    for note in history.noted("registered"):
        if note.at_s < stop_s:
            there = host in note.args["servers"]
            if note.at_s > stop_s - STEADY_S and not (there and known):
                return False
            known = there
    return known and not any(stop_s - STEADY_S < at_s < stop_s for at_s in crashes)
