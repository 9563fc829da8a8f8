"""Usage of a topic, from the month to the minute."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from tests.unit.gateway.console.support import Browser, browser

from opentalos.gateway.console.pages.bill.usage import span_of

TOPIC = "/console/usage/root%2Ft"


@pytest.fixture
async def root() -> AsyncIterator[Browser]:
    async with browser() as made:
        await made.submit("/console/topics/new", {"name": "t", "partitions": "2"})
        for partition, data in (("0", "a"), ("1", "bb"), ("1", "ccc")):
            sent = {"data": data, "format": "text", "partition": partition}
            done = await made.submit("/console/topics/root%2Ft/produce", sent)
            assert done.status == 303, done.words
        yield made


@pytest.mark.parametrize(
    ("text", "begin", "parts"),
    [
        ("2026-02", datetime(2026, 2, 1, tzinfo=UTC), 28),
        ("2026-02-28", datetime(2026, 2, 28, tzinfo=UTC), 24),
        ("2026-12-31T23", datetime(2026, 12, 31, 23, tzinfo=UTC), 60),
        ("2026-02-30", datetime(2026, 9, 1, tzinfo=UTC), 30),
        ("0000-01", datetime(2026, 9, 1, tzinfo=UTC), 30),
        ("9999-12", datetime(2026, 9, 1, tzinfo=UTC), 30),
        ("<script>", datetime(2026, 9, 1, tzinfo=UTC), 30),
    ],
)
def test_spans_of_time(text: str, begin: datetime, parts: int) -> None:
    span = span_of(text, 1_790_000_000_000)
    assert (span.begin, len(span.edges) - 1) == (begin, parts)


async def test_each_level_counts_the_messages_of_the_log(root: Browser) -> None:
    found = await root.rest("GET", "topics/t/usage?partition=1")
    minute = datetime.fromtimestamp(found.document["minutes"][0]["minute_ms"] / 1_000, UTC)
    month = await root.get(f"{TOPIC}?at={minute:%Y-%m}")
    assert "Messages 3" in month.words
    assert f"at={minute:%Y-%m-%d}" in month.text
    day = await root.get(f"{TOPIC}?at={minute:%Y-%m-%d}&partition=1")
    assert f"Messages 2 {minute:%Y-%m-%d}, partition 1" in day.words
    hour = await root.get(f"{TOPIC}?at={minute:%Y-%m-%dT%H}&partition=1")
    assert f"{minute:%Y-%m-%d %H:%M} 2" in hour.words
    assert "Bytes" in hour.words
    empty = await root.get(f"{TOPIC}?at=1999-01")
    assert "Messages 0" in empty.words
    assert (await root.get(f"{TOPIC}?at=2999-01-01T00")).status == 200


async def test_a_topic_of_another_tenant_looks_like_none(root: Browser) -> None:
    anna = await root.as_user("anna", organisation="CL7")
    page = await anna.get(TOPIC)
    unknown = await anna.get("/console/usage/root%2Fu")
    assert page.status == unknown.status == 404
    assert page.words.replace("%2Ft", "%2Fu").replace("root/t", "root/u") == unknown.words
