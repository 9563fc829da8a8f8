"""Checks of a table's changes: each change has one mutation, and each mutation its change."""

import operator
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import Any

from opentalos.testing.simulation.checks.anomaly import Anomaly
from opentalos.testing.simulation.checks.view.table_view import (
    ALWAYS_S,
    MUTATE_LOG,
    NEVER_S,
    RECORD_IMAGE,
    Delivered,
    State,
    StreamView,
    TableView,
    Transition,
    acked,
    ended_s,
    may_be_done,
    tag_of,
)
from opentalos.testing.simulation.history import Operation

_COMPARISONS: dict[int, Callable[[Any, Any], Any]] = {  # by the operator of a condition
    1: operator.eq,
    2: operator.ne,
    3: operator.gt,
    4: operator.ge,
    5: operator.lt,
    6: operator.le,
}
_EQUAL = 1


def missing_mutations(table: TableView) -> Iterator[Anomaly]:
    """An acknowledged change has no message in an enabled stream, or a sequence number is missing.

    A remove that may have found nothing to remove need not have a change.
    """
    for stream in table.streams:
        text = f"{table.name} in {stream.topic}"
        if stream.whole:
            for key in table.keys:
                delivered = stream.firsts(key)
                for sequence in range(1, _last_sequence(table, key) + 1):
                    if sequence not in delivered:
                        detail = f"{text}: {key}#{sequence} was never published"
                        yield Anomaly("missing-mutation", detail)
        if stream.gap_ms is not None:
            yield from _missing_before_the_gap(table, stream, stream.gap_ms)
        for key, mutations in table.mutations.items() if not stream.cut else ():
            for mutation in _undelivered(stream, key, mutations):
                yield Anomaly("missing-mutation", f"{text}: no change matches {mutation}")


def _missing_before_the_gap(table: TableView, stream: StreamView, gap_ms: int) -> Iterator[Anomaly]:
    for other in table.streams:
        for key in other.rows:
            delivered = stream.firsts(key)
            for sequence, change in other.firsts(key).items():
                if change.timestamp_ms < gap_ms and sequence not in delivered:
                    text = f"{change} of {change.timestamp_ms} precedes its gap at {gap_ms}"
                    yield Anomaly("missing-mutation", f"{table.name} in {stream.topic}: {text}")


def _last_sequence(table: TableView, key: str) -> int:
    return max((max(stream.firsts(key), default=0) for stream in table.streams), default=0)


def _undelivered(stream: StreamView, key: str, mutations: list[Operation]) -> Iterator[Operation]:
    needed = [each for each in mutations if acked(each) and each.began_s > stream.on_s]
    if stream.view == RECORD_IMAGE:
        yield from _not_shown(stream, key, needed)
    if stream.view != MUTATE_LOG or not needed:
        return
    steps = stream.transitions(key)
    made = Counter(tag_of(mutation) for mutation in mutations if may_be_done(mutation))
    spans = _spans(steps, mutations) if stream.whole else None
    by_tag: dict[str, list[Operation]] = defaultdict(list)
    for mutation in needed:
        remove = mutation.args["operation"] == "remove"
        never_idle = spans is not None and not stream.ttl_ms
        if not remove or (never_idle and not _idle(mutation, steps, spans or [])):
            by_tag[tag_of(mutation)].append(mutation)
    delivered = Counter(step.change.tag for step in steps)
    for tag, mine in by_tag.items():
        if stream.whole or made[tag] == 1:
            yield from mine[delivered[tag] :]


def _not_shown(stream: StreamView, key: str, needed: list[Operation]) -> Iterator[Operation]:
    images = [change.image for change in stream.firsts(key).values() if not change.row_deleted]
    for mutation in needed:
        args = mutation.args
        put = args.get("columns", {}) if args["operation"] == "put" else {}
        wanted = (put or mutation.result.get("amounts", {})).items()
        if wanted and not any(wanted <= image.items() for image in images):
            yield mutation


Spans = list[tuple[float, float]]


def _spans(steps: list[Transition], mutations: list[Operation]) -> Spans:
    """For each change the times between which it was made, as far as unique matches show."""
    delivered = Counter(step.change.tag for step in steps)
    by_tag: dict[str, list[Operation]] = defaultdict(list)
    for mutation in mutations:
        if may_be_done(mutation):
            by_tag[tag_of(mutation)].append(mutation)
    began, ended = [ALWAYS_S] * len(steps), [NEVER_S] * len(steps)
    for at, step in enumerate(steps):
        mine = by_tag.get(step.change.tag, [])
        if len(mine) == delivered[step.change.tag] == 1:
            began[at], ended[at] = mine[0].began_s, ended_s(mine[0])
    first = accumulate(began, max)
    last = [*accumulate(reversed(ended), min)][::-1]
    return list(zip(first, last, strict=True))


def _idle(remove: Operation, steps: list[Transition], spans: Spans) -> bool:
    """Whether there may have been nothing to remove at some time while it ran."""
    attribute = remove.args.get("attribute")
    states: list[State] = [None, *(step.after for step in steps)]
    since = [ALWAYS_S, *(span[0] for span in spans)]
    until = [*(span[1] for span in spans), NEVER_S]
    for state, since_s, until_s in zip(states, since, until, strict=True):
        absent = state is None or (attribute and attribute not in state)
        if absent and since_s <= remove.ended_s and until_s >= remove.began_s:
            return True
    return False


def phantom_changes(table: TableView) -> Iterator[Anomaly]:
    """A change that no mutation explains: none was sent, or it was rejected.

    An increment that was published more often than it was made is a double increment.
    """
    for stream in table.streams:
        if stream.view != MUTATE_LOG:
            continue
        for key in stream.rows:
            mutations = table.mutations.get(key, [])
            made = Counter(tag_of(mutation) for mutation in mutations if may_be_done(mutation))
            for sequence, change in sorted(stream.firsts(key).items()):
                made[change.tag] -= 1
                if made[change.tag] >= 0:
                    continue
                again = change.kind == "increment" and any(
                    tag_of(mutation) == change.tag and may_be_done(mutation)
                    for mutation in mutations
                )
                name = "cdc-double-increment" if again else "cdc-phantom"
                text = f"{table.name} in {stream.topic}: no mutation explains {change}"
                yield Anomaly(name, f"{text}, sequence {sequence}")


def double_increments(table: TableView) -> Iterator[Anomaly]:
    """Replayed amounts do not add up to the values, or the caller received other values."""
    for stream in table.streams:
        if stream.view != MUTATE_LOG:
            continue
        for key in stream.rows:
            reported = _reported_amounts(table.mutations.get(key, []))
            for change, before, _ in stream.transitions(key):
                if change.kind != "increment":
                    continue
                fault = _adds_up(change, before) if stream.whole else ""
                answer = reported.get(change.tag)
                if not fault and answer is not None and answer != change.columns:
                    fault = f"its caller received {answer}"
                if fault:
                    text = f"{table.name} in {stream.topic}: {change} made {dict(change.columns)}"
                    yield Anomaly("cdc-double-increment", f"{text}, but {fault}")


def _reported_amounts(mutations: list[Operation]) -> dict[str, object]:
    tags = Counter(tag_of(mutation) for mutation in mutations if may_be_done(mutation))
    return {
        tag_of(mutation): mutation.result["amounts"]
        for mutation in mutations
        if acked(mutation) and "amounts" in mutation.result and tags[tag_of(mutation)] == 1
    }


def _adds_up(change: Delivered, before: State) -> str:
    for name, amount in change.amounts.items():
        held = (before or {}).get(name, 0)
        if held + amount != change.columns.get(name):
            return f"{name} was {held}"
    return ""


def wrong_conditions(table: TableView) -> Iterator[Anomaly]:
    """A mutation was applied although its condition did not hold."""
    for stream in table.streams:
        if not stream.whole or stream.view != MUTATE_LOG:
            continue
        for key in stream.rows:
            mutations = [each for each in table.mutations.get(key, ()) if may_be_done(each)]
            tags = Counter(tag_of(mutation) for mutation in mutations)
            conditions = {
                tag_of(each): each.args["condition"]
                for each in mutations
                if each.args.get("condition") and tags[tag_of(each)] == 1
            }
            for change, before, _ in stream.transitions(key):
                condition = conditions.get(change.tag)
                if condition is not None and not _holds(condition, before):
                    yield Anomaly(
                        "wrong-condition",
                        f"{table.name} in {stream.topic}: {change} was applied although "
                        f"{condition} does not hold for {before}",
                    )


def _holds(condition: Mapping[str, Any], row: State) -> bool:
    exists = condition.get("row_exists")
    if exists is not None:
        return bool(exists) is (row is not None)
    held = (row or {}).get(condition["field"])
    if held is None:
        equal: bool = condition["operator"] == _EQUAL
        return not equal  # other comparisons with an absent value are not judged
    return bool(_COMPARISONS[condition["operator"]](held, condition["value"]))
