"""When a month is complete."""

from typing import Any

import pytest

from opentalos.model.errors import TopicNotExist
from opentalos.pipelines.billing.closing import Edges, Watermark, unfinished, watermarks

PLACE = ("uuid", 3)
QUIET = Watermark("orders", 100, 0, 100)  # everything that the log has is metered
BUSY = Watermark("orders", 90, 0, 100)


def edges(
    before: int | None = None,
    first: int | None = None,
    reach: int | None = None,
    after: int | None = None,
) -> Edges:
    return Edges("orders", before, first, reach, after)


def reason(mark: Watermark | None, chain: Edges | None) -> str:
    """Why the partition is not complete; empty: it is."""
    found = list(unfinished({PLACE: mark} if mark else {}, {PLACE: chain} if chain else {}))
    assert all(place == PLACE and name == "orders" for place, name, _ in found)
    return found[0][2] if found else ""


@pytest.mark.parametrize(
    ("mark", "chain"),
    [
        (QUIET, edges(40, 40, 100)),
        (QUIET, edges(None, 0, 100)),
        (QUIET, edges(100)),  # nothing in this month
        (QUIET, edges(None, 0, 60, 60)),
        (QUIET, edges(None, None, None, 0)),  # its first messages came later
        (BUSY, edges(20, 20, 60, 60)),  # goes on in the month after
        (Watermark("orders", 0, 0, 0), None),
        (Watermark("orders", -1, 0, 50), None),  # nobody meters it
        (Watermark("orders", 100, 30, 100), edges(20, 30, 100)),  # metering was off meanwhile
        (None, edges(20, 20, 60)),  # a deleted topic
        (None, edges(None, 20, 60)),
    ],
)
def test_a_partition_is_complete_that_is_metered_past_the_month(
    mark: Watermark | None, chain: Edges | None
) -> None:
    assert reason(mark, chain) == ""


@pytest.mark.parametrize(
    ("mark", "chain", "words"),
    [
        (BUSY, edges(20, 20, 90), "the server has not metered offsets 90 to 99"),
        (BUSY, None, "the server has not metered offsets 90 to 99"),
        (QUIET, edges(20, 20, 60), "the table does not have offsets 60 to 99 yet"),
        (QUIET, edges(60), "the table does not have offsets 60 to 99 yet"),
        (QUIET, None, "the table does not have offsets 0 to 99 yet"),
        (QUIET, edges(40, 45, 100), "begin at offset 45, those before the month end at 40"),
        (QUIET, edges(40, 35, 100), "begin at offset 35, those before the month end at 40"),
        (QUIET, edges(None, 5, 100), "begin at offset 5, those before the month end at 0"),
        (QUIET, edges(40, 40, 60, 70), "end at offset 60, those after the month begin at 70"),
        (QUIET, edges(40, None, None, 70), "end at offset 40, those after the month begin at 70"),
        (None, edges(40, 45, 100), "begin at offset 45, those before the month end at 40"),
    ],
)
def test_what_is_missing_is_named(mark: Watermark | None, chain: Edges | None, words: str) -> None:
    assert words in reason(mark, chain)


def test_the_server_is_asked_for_every_partition_that_ever_existed() -> None:
    def call(_method: str, path: str, *, query: dict[str, Any]) -> dict[str, Any]:
        if path == "topics":
            return {"topics": [{"resource": "o#gone#u1"}, {"resource": "o#orders#u2"}]}
        if "gone" in path:
            raise TopicNotExist(path)
        number = query["partition"]
        fields = ("metered_offset", "metered_since", "next_offset", "start_offset")
        return {"name": "orders", "partitions": 2} | dict.fromkeys(fields, number)

    found = watermarks(call)  # type: ignore[arg-type]
    assert found == {("u2", number): Watermark("orders", *[number] * 4) for number in (0, 1)}
