"""Hand-made histories of what is kept; see ``stories``."""

from tests.unit.testing.simulation.checks.stories import Story
from tests.unit.testing.simulation.checks.tale import Tale

RETENTION_S = 10
T = 1_000_000


def stored(tale: Tale) -> None:
    """Messages 0 to 4, and 5 to 9 ten seconds later."""
    topic = {"durability": "synced", "retention_s": RETENTION_S, "retention_bytes": None}
    tale.note("topic", topic="o#t#u", **topic)
    blocks = [[0, 5, T, 50], [5, 5, T + 10_000, 50]]
    tale.note("stored-blocks", topic="u", partition=0, minute_ms=2_000, blocks=blocks, sure=True)

    for base, _, append_ms, count in blocks:
        row = {"first_offset": base, "next_offset": base + 5, "bytes": count}
        tale.note("usage-event", topic="u", partition=0, minute_ms=append_ms, **row)


def moved(tale: Tale, start: int, at_ms: int) -> None:
    tale.note("moved-start", topic="u", partition=0, start=start, at_ms=at_ms)


def said(tale: Tale, start: int, at_ms: int) -> None:
    tale.note("kept-event", topic="u", partition=0, minute_ms=at_ms, start_offset=start)


def reported_until_dropped(tale: Tale) -> None:
    """Twice, as after a put of unknown outcome."""
    stored(tale)
    for _ in range(2):
        said(tale, 0, T + 10_000)
    moved(tale, 5, T + 12_000)
    said(tale, 5, T + 20_000)
    moved(tale, 10, T + 21_000)


def dropped_with_an_old_report_only(tale: Tale) -> None:
    stored(tale)
    said(tale, 0, T + 2_000)
    moved(tale, 5, T + 12_000)


def dropped_with_a_report_of_the_rest(tale: Tale) -> None:
    stored(tale)
    said(tale, 5, T + 11_000)
    moved(tale, 5, T + 12_000)


def said_to_be_kept_after_it_was_dropped(tale: Tale) -> None:
    stored(tale)
    said(tale, 0, T + 10_000)
    moved(tale, 5, T + 12_000)
    said(tale, 0, T + 14_000)


def deleted(tale: Tale, offset: int, start: int) -> None:
    tale.ok(tale.begin("trim", "deleter", topic="o#t#u", offset=offset), start=start)


def dropped_soon_after_its_deletion(tale: Tale) -> None:
    """A second of the tale is one of the true time."""
    stored(tale)
    began_ms = T + 2_000 - round(tale.now_s * 1_000)
    deleted(tale, -1, 5)
    said(tale, 0, began_ms + round(tale.now_s * 1_000))
    moved(tale, 5, began_ms + round(tale.now_s * 1_000) + 1_000)


def dropped_by_a_deletion_with_an_old_report_only(tale: Tale) -> None:
    stored(tale)
    said(tale, 0, T + 1_000)
    tale.tick(6.0)
    began_ms = T + 7_000 - round(tale.now_s * 1_000)
    deleted(tale, 5, 5)
    moved(tale, 5, began_ms + round(tale.now_s * 1_000) + 1_000)


def dropped_beyond_its_deletion(tale: Tale) -> None:
    stored(tale)
    began_ms = T + 2_000 - round(tale.now_s * 1_000)
    deleted(tale, 3, 3)
    said(tale, 0, began_ms + round(tale.now_s * 1_000))
    moved(tale, 5, began_ms + round(tale.now_s * 1_000) + 1_000)


CASES: dict[str, tuple[list[Story], list[Story]]] = {
    "kept-drift": (
        [
            dropped_with_an_old_report_only,
            dropped_with_a_report_of_the_rest,
            said_to_be_kept_after_it_was_dropped,
            dropped_by_a_deletion_with_an_old_report_only,
            dropped_beyond_its_deletion,
        ],
        [reported_until_dropped, dropped_soon_after_its_deletion],
    )
}
