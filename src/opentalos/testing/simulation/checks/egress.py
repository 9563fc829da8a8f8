"""Checks of egress: no byte that was read is billed twice.

A killed server loses what it had not written, so events may report less than was read, never more.
An event may come again, and is known by its source and number: it must be the same one then.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from opentalos.testing.simulation.checks.anomaly import Anomaly
from opentalos.testing.simulation.history import History

_Place = tuple[str, str]  # topic uuid, reader


def egress_drift(history: History) -> Iterator[Anomaly]:
    """Events report more bytes of a topic and reader than were read, or contradict each other."""
    events: dict[tuple[str, int], dict[str, Any]] = {}
    for note in history.noted("egress-event"):
        key = note.args["source"], note.args["number"]
        if events.setdefault(key, dict(note.args)) != note.args:
            yield Anomaly("egress-drift", f"event {key} is {note.args} and {events[key]}")
    reported, read = Counter[_Place](), Counter[_Place]()
    for event in events.values():
        reported[event["topic"], event["reader"]] += event["bytes"]
    for note in history.noted("read"):
        read[note.args["topic"], note.args["reader"]] += note.args["bytes"]
    for place in sorted(reported):
        if reported[place] > read[place]:
            text = f"events of topic {place[0]} report {reported[place]} bytes read by {place[1]}"
            yield Anomaly("egress-drift", f"{text}, but there were {read[place]}")
