"""States of a topic's partitions: those that a page shows, and what they add up to.

Of a topic with many partitions only the shown ones are read, unless they are ordered by an amount:
then it takes all of them to know which ones come first.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from opentalos.gateway.console.page import Visit
from opentalos.gateway.console.paging import Part, part

QUICK_PARTITIONS: Final = 500  # of so many the states take the server some milliseconds
ORDERS: Final = ("partition", "messages", "bytes", "total_messages")
_AMOUNTS: Final = ("messages", "bytes", "total_messages", "total_bytes")

State = Mapping[str, Any]


class Read(NamedTuple):
    """States as the page shows them.

    ``known``: those that were read; ``missing``: how many of them are unavailable now; ``totals``:
    sums over the whole topic, None: not all partitions were read.
    """

    part: Part
    known: Sequence[State]
    missing: int
    totals: Mapping[str, int] | None


async def read(visit: Visit, topic: Mapping[str, Any], order: str) -> Read:
    """The part of the partitions that the query asks for, in an order of ``ORDERS``.

    Args: topic: with the states of its first ``QUICK_PARTITIONS`` partitions.
    """
    count = topic["consumer_partitions"]
    wanted = wanted_of(visit.query.text("filter"), count)
    if count > QUICK_PARTITIONS and order == ORDERS[0]:
        shown = part(visit.query, wanted)
        known = await _states(visit, shown.rows)
        return Read(shown._replace(rows=known), known, len(shown.rows) - len(known), None)
    asked = range(count) if count <= QUICK_PARTITIONS else wanted
    known = topic["states"] if count <= QUICK_PARTITIONS else await _states(visit, wanted)
    rows = [state for state in known if state["partition"] in wanted]
    rows.sort(key=lambda state: state[order], reverse=order != ORDERS[0])
    totals = {name: sum(state[name] for state in known) for name in _AMOUNTS}
    whole = totals if len(asked) == count else None
    return Read(part(visit.query, rows), known, len(asked) - len(known), whole)


def wanted_of(text: str, count: int) -> range:
    """``7``, ``100-199``, or ``100-`` for those from 100 on; what is no such text: all."""
    first, dash, last = (piece.strip() for piece in text.partition("-"))
    if not _is_number(first) or (last and not _is_number(last)):
        return range(count)
    end = int(last) if last else (count if dash else int(first))
    return range(min(int(first), count), min(end + 1, count))


async def _states(visit: Visit, partitions: Sequence[int]) -> Sequence[State]:
    """Of neighbouring partitions, in order; one that cannot be read now is left out."""
    if not partitions:
        return ()
    query = {"from_partition": partitions[0], "limit": len(partitions)}
    found = await visit.rest.get("topics", visit.places["topic"], query=query)
    states: Sequence[State] = found["states"]
    return states


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= len("10000")
