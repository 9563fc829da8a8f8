"""Reset the offsets of a group, first as a dry run, and delete it."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from opentalos.gateway.console.calls import RestError
from opentalos.gateway.console.page import Done, View, Visit, url
from opentalos.gateway.console.pages.topic.messages import parsed_time

TO: Final = ("start", "end", "time", "offset")
ROWS_MAX: Final = 200  # of the result of a dry run
_LEFT, _WIDTH = 2.0, 296.0  # of the picture of a partition


class Moved(NamedTuple):
    """A partition before and after; offsets are those of the next message to read.

    ``x_before``, ``x_after``: places in a picture of the log; None: the log is not known.
    """

    partition: int
    before: int
    after: int
    start: int | None
    next: int | None
    x_before: float | None
    x_after: float | None

    @property
    def change(self) -> int:
        """Messages that come again (below 0), or are left out."""
        return self.after - self.before


async def show(visit: Visit) -> View:
    """The form; what was chosen is in the query or in the form."""
    return await _view(visit)


async def change(visit: Visit) -> View | Done:
    """Dry run, reset or delete: the field ``action`` says what."""
    topic, group = visit.places["topic"], visit.places["group"]
    action = visit.form.get("action", "")
    if action == "delete":
        if visit.form.get("confirmed", "").strip() != group:
            raise RestError(422, "nothing was deleted: the name that you typed is another one")
        await visit.rest.delete("topics", topic, "groups", group)
        return Done(url("groups"), f"Group {group} was deleted.")
    target = await _target(visit)
    if action == "reset" and visit.form.get("confirmed", "").strip() == group:
        done = await _reset(visit, target, dry_run=False)
        count = f"{len(done):,} partition{'' if len(done) == 1 else 's'}"
        return Done(url("groups", topic, group), f"{count} of group {group} were reset.")
    if action == "reset":
        visit.failure = "nothing was reset: the name that you typed is another one"
    view = await _view(visit, moved=await _moved(visit, target))
    return view.with_status(422) if action == "reset" else view


async def _view(visit: Visit, moved: Sequence[Moved] | None = None) -> View:
    topic, group = visit.places["topic"], visit.places["group"]
    found = await visit.rest.get("topics", topic, "groups", group, query={"limit": 0})
    chosen = visit.form.get("to") or visit.query.choice("to", TO)
    target = {"start": "start", "end": "end", "offset": "OFFSET"}.get(chosen, "@TIME")
    return View(
        template="group/reset.html",
        title=group,
        data={
            "group": group,
            "topic": topic,
            "tab": "reset",
            "found": found,
            "workers": found["members_count"],
            "chosen": chosen,
            "tos": (
                ("start", "the oldest message"), ("end", "only what comes from now on"),
                ("time", "a time"), ("offset", "an offset"),
            ),
            "moved": None if moved is None else moved[:ROWS_MAX],
            "moved_count": len(moved or ()),
            "again": sum(-row.change for row in moved or () if row.change < 0),
            "left_out": sum(row.change for row in moved or () if row.change > 0),
            "sent": {
                name: visit.form[name]
                for name in ("to", "time", "offset", "partitions")
                if visit.form.get(name)
            },
        },
        cli=(
            f"talos group reset {topic} {group} --to {target} --dry-run",
            f"talos group delete {topic} {group}",
        ),
        trail=(("Groups", url("groups")),),
    )  # fmt: skip


async def _moved(visit: Visit, target: Any) -> Sequence[Moved]:
    """A dry run, the largest changes first."""
    changes, offsets = await asyncio.gather(
        _reset(visit, target, dry_run=True),
        visit.rest.maybe("topics", visit.places["topic"], "offsets"),
    )
    logs = {entry["partition"]: entry for entry in (offsets["partitions"] if offsets else ())}
    rows = [_row(entry, logs.get(entry["partition"], {})) for entry in changes]
    return sorted(rows, key=lambda row: (-abs(row.change), row.partition))


def _row(entry: Mapping[str, Any], log: Mapping[str, Any]) -> Moved:
    start, end = log.get("start"), log.get("next")
    before, after = entry["before"] + 1, entry["after"] + 1
    places: list[float | None] = [None, None]
    if start is not None and end is not None:
        # Without a checkpoint, or with one before the log, the group begins at the log's start.
        before, after = max(before, start), max(after, start)
        length = max(1, end - start)
        places = [
            round(_LEFT + _WIDTH * min(1.0, (offset - start) / length), 1)
            for offset in (before, after)
        ]
    return Moved(entry["partition"], before, after, start, end, *places)


async def _reset(visit: Visit, target: Any, *, dry_run: bool) -> Sequence[Mapping[str, Any]]:
    topic, group = visit.places["topic"], visit.places["group"]
    found = await visit.rest.post(
        "topics", topic, "groups", group, "reset", document={"to": target, "dry_run": dry_run}
    )
    rows: Sequence[Mapping[str, Any]] = found["partitions"]
    return rows


async def _target(visit: Visit) -> Any:
    """Where to, as REST has it. Raises: RestError: the form lacks something."""
    to = visit.form.get("to", "")
    if to in ("start", "end"):
        return to
    if to == "time":
        time_ms = parsed_time(visit.form.get("time", "").strip())
        if time_ms is None:
            raise RestError(422, "give a time, such as 2026-01-31T12:00 (UTC)")
        return {"time_ms": time_ms}
    offset = visit.number("offset")
    if to != "offset" or offset is None:
        raise RestError(422, "give the offset of the message to continue with, 0 or more")
    place = visit.places["topic"], "groups", visit.places["group"]
    found = await visit.rest.get("topics", *place, query={"limit": 0})
    chosen = partitions_of(visit.form.get("partitions", ""), range(found["partitions_count"]))
    return {"offsets": {str(partition): offset - 1 for partition in chosen}}


def partitions_of(text: str, known: Sequence[int]) -> Sequence[int]:
    """``0,2-5``; empty: all. Raises: RestError."""
    chosen: set[int] = set()
    for piece in filter(None, (piece.strip() for piece in text.split(","))):
        first, _, last = piece.partition("-")
        if not (first.isascii() and first.isdigit() and (not last or last.isdigit())):
            raise RestError(422, "give partitions as numbers and ranges, such as 0,2-5")
        least, most = int(first), int(last or first)
        if least > most or most > max(known, default=0):
            raise RestError(422, f"the topic has partitions 0 to {max(known, default=0)}")
        chosen.update(range(least, most + 1))
    return sorted(chosen) or known
