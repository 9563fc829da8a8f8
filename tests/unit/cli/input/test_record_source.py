"""``talos consume`` of a topic with a damaged partition: the others are read, then it is named."""

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.unit.sdk.fake_group import FakeGroup
from tests.unit.sdk.fake_servers import run

from opentalos.cli.input.record_source import Wanted, source_of
from opentalos.cli.input.times import Position
from opentalos.sdk.errors import CorruptLog

BAD, GOOD = 0, 1
WHOLE = [(GOOD, 0), (GOOD, 1)]
PROVEN = [(BAD, 0), (BAD, 1), (BAD, 2)]


def read(**given: Any) -> tuple[list[tuple[int, int]], str]:
    """Partition and offset of what is read, in order, and the error at the end."""
    found: list[tuple[int, int]] = []
    unknown_start, put_later = given.pop("unknown_start", False), given.pop("put_later", False)

    async def test() -> None:
        group = FakeGroup(partitions=2)
        group.put(BAD, 3)
        group.put(GOOD, 2)
        group.damaged[BAD] = unknown_start
        client = group.client()
        source = source_of(client, Wanted("demo", **given))
        async for batch in source.batches():
            found.extend((record.partition, record.offset) for record in batch)
            if put_later and len(found) == 5:
                group.put(GOOD, 1)
            elif len(found) == 6:
                break
        await source.close()

    try:
        run(test())
    except CorruptLog as error:
        return sorted(found), str(error)
    return sorted(found), ""


@pytest.mark.parametrize(
    ("start", "proven"),
    [
        ("start", PROVEN),
        ("end", []),
        (0, PROVEN),
        (datetime(1970, 1, 1, tzinfo=UTC), PROVEN),
        (datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC), []),
    ],
)
def test_other_partitions_are_read_before_the_damage_is_raised(
    start: Position, proven: list[tuple[int, int]]
) -> None:
    later = start == "end" or (isinstance(start, datetime) and start.second)
    found, error = read(start=start)
    assert found == proven + ([] if later else WHOLE)
    assert error == "partition 0 is damaged"


def test_other_partitions_are_read_although_the_start_is_not_known() -> None:
    assert read(start="start", unknown_start=True) == (WHOLE, "partition 0 is damaged")


def test_only_what_was_chosen_needs_to_be_whole() -> None:
    assert read(start="start", partitions=(GOOD,)) == (WHOLE, "")


def test_following_continues_and_names_the_damage(capsys: pytest.CaptureFixture[str]) -> None:
    found, error = read(start="start", follow=True, put_later=True)
    assert found == [*PROVEN, *WHOLE, (GOOD, 2)]
    assert not error
    assert "talos: partition 0 is damaged; the other partitions are read" in capsys.readouterr().err


def test_a_worker_of_a_group_reads_on_and_then_raises_the_damage() -> None:
    found, error = read(start="start", group="g", idle_s=20.0)
    assert found == PROVEN + WHOLE
    assert error == "partition 0 is damaged"
