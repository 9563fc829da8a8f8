"""Checks of a cluster as a whole: restarts that move no partition, and who leads in which epoch."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

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


def two_leaders(history: History) -> Iterator[Anomaly]:
    """Clients of Kafka take the answer with the newer epoch, so an epoch has one leader, and no
    server goes back to an older one.

    A server that is not registered, or was not when it was asked about, has no name.
    """
    led: dict[tuple[str, int, int], str] = {}
    known: dict[tuple[str, str], tuple[float, int]] = {}  # by topic and host: since when, epoch
    for asked in sorted(history.of("leaders"), key=lambda each: each.ended_s):
        if not asked.ok or asked.result["epoch"] < 0:
            continue
        topic, host, epoch = asked.args["topic"], asked.result["by"], asked.result["epoch"]
        for partition, leader in enumerate(asked.result["leaders"]):
            before = led.get((topic, partition, epoch), leader)
            if leader and before and leader != before:
                text = f"{before} and {leader} lead {topic}/{partition} in epoch {epoch}"
                yield Anomaly("two-leaders", text)
            led[topic, partition, epoch] = before or leader
        ended_s, newest = known.get((topic, host), (0.0, epoch))
        if epoch < newest and asked.began_s > ended_s:
            text = f"{host} knew epoch {newest} of {topic} at {ended_s:.3f}, then {epoch}"
            yield Anomaly("two-leaders", text)
        if epoch >= newest:
            known[topic, host] = (asked.ended_s, epoch)


def former_leaders(history: History) -> Iterator[Anomaly]:
    """A server may answer in an older epoch than its own, and not in a newer one."""
    owners = _owners_by_epoch(history)
    for read in history.of("read"):
        if not read.ok or "epoch" not in read.args:
            continue
        topic, host, asked = read.args["topic"], read.result["by"], read.args["epoch"]
        partition = read.args["partition"]
        led = owners.get(topic.rpartition("#")[2], {})
        since = [names for epoch, names in led.items() if epoch >= asked]
        if asked in led and not any(host in names[partition : partition + 1] for names in since):
            text = f"{host} answered {read} although it does not lead since that epoch"
            yield Anomaly("former-leader", text)


def _owners_by_epoch(history: History) -> dict[str, dict[int, Sequence[str]]]:
    """Owners by partition, by topic uuid and epoch."""
    found: dict[str, dict[int, Sequence[str]]] = defaultdict(dict)
    for note in history.noted("assigned"):
        if "number" in note.args:
            found[note.args["topic"]][note.args["number"]] = note.args["owners"]
    return found
