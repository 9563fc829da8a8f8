"""Hand-made histories of structured tables and their streams; see ``stories``."""

from typing import Any

from tests.unit.testing.simulation.checks.stories import Story
from tests.unit.testing.simulation.checks.tale import Tale

from opentalos.testing.simulation.history import Operation

KEY = "r"
Changes = list[dict[str, Any]]


def begin(tale: Tale, operation: str, key: str = KEY, **args: Any) -> Operation:
    return tale.begin("mutate", table="T", key=key, operation=operation, **args)


def put(tale: Tale, tag: str, outcome: str = "ok", **args: Any) -> None:
    mutation = begin(tale, "put", columns={"tag": tag}, **args)
    tale.tick()
    if outcome == "ok":
        tale.recorder.ok(mutation, success=True)
    elif outcome == "refused":
        tale.recorder.ok(mutation, success=False)
    elif outcome == "fail":
        tale.recorder.fail(mutation, "Unavailable")
    else:
        tale.recorder.unknown(mutation, "OutcomeUnknown")


def add(tale: Tale, amount: int, result: int | None) -> None:
    mutation = begin(tale, "increment", amounts={"n": amount})
    tale.tick()
    if result is None:
        tale.recorder.unknown(mutation, "OutcomeUnknown")
    else:
        tale.recorder.ok(mutation, success=True, amounts={"n": result})


def remove(tale: Tale, **args: Any) -> None:
    tale.ok(begin(tale, "remove", **args), success=True)


def put_change(sequence: int, tag: str, time_ms: int | None = None, **more: Any) -> dict[str, Any]:
    return _change(sequence, "put", time_ms, columns={"tag": tag}, **more)


def add_change(sequence: int, amount: int, result: int) -> dict[str, Any]:
    return _change(sequence, "increment", None, amounts={"n": amount}, columns={"n": result})


def remove_change(sequence: int) -> dict[str, Any]:
    return _change(sequence, "delete", None, row_deleted=True)


def image_change(sequence: int, **image: Any) -> dict[str, Any]:
    return _change(sequence, "put", None, image=image)


def _change(sequence: int, kind: str, time_ms: int | None, **more: Any) -> dict[str, Any]:
    time_ms = sequence * 10 if time_ms is None else time_ms
    return {"key": KEY, "sequence": sequence, "timestamp_ms": time_ms, "kind": kind, **more}


def table(tale: Tale, **streams: str) -> None:
    tale.note("table", table="T", streams=streams or {"log": "MUTATE_LOG"})


def stream(tale: Tale, *changes: dict[str, Any], topic: str = "log", partition: int = 0) -> None:
    read = tale.begin("changes", table="T", topic=topic, partition=partition)
    tale.ok(read, start=0, next=len(changes), changes=[list(each) for each in enumerate(changes)])


def scan(tale: Tale, *rows: tuple[str, dict[str, Any]], **args: Any) -> None:
    found = tale.begin("scan", table="T", final=True, **args)
    tale.ok(found, rows=[list(row) for row in rows])


def switch(tale: Tale, *, enabled: bool) -> None:
    tale.ok(tale.begin("stream", table="T", topic="log", enabled=enabled))


def mark(tale: Tale, time_ms: int, following: int) -> None:
    operation = tale.begin("mark", table="T", topic="log")
    tale.ok(operation, timestamp_ms=time_ms, offsets=[[0, following]])


# --- good ones ------------------------------------------------------------------------------------


def every_kind_once_and_again(tale: Tale) -> None:
    """Resends, a remove of what is not there, an unknown one that was done, one that was not."""
    table(tale)
    put(tale, "a")
    add(tale, 3, 3)
    remove(tale)
    remove(tale)
    put(tale, "b", "unknown")
    put(tale, "c", "unknown")
    put(tale, "d", "refused", condition={"row_exists": False})
    put(tale, "e", condition={"field": "tag", "operator": 1, "value": "b"})
    first = [put_change(1, "a"), add_change(2, 3, 3), remove_change(3)]
    mark(tale, 25, 2)
    stream(tale, *first, *first[1:], put_change(4, "b"), put_change(5, "e"))
    scan(tale, (KEY, {"tag": "e"}))


def two_views_agree(tale: Tale) -> None:
    table(tale, log="MUTATE_LOG", img="RECORD_IMAGE")
    put(tale, "a")
    add(tale, 3, 3)
    stream(tale, put_change(1, "a"), add_change(2, 3, 3))
    stream(tale, image_change(1, tag="a"), image_change(2, tag="a", n=3), topic="img")
    scan(tale, (KEY, {"tag": "a", "n": 3}))


def off_for_a_while(tale: Tale) -> None:
    table(tale)
    put(tale, "a")
    switch(tale, enabled=False)
    put(tale, "b")
    switch(tale, enabled=True)
    put(tale, "c")
    stream(tale, put_change(1, "a"), put_change(3, "c"))
    scan(tale, (KEY, {"tag": "c"}))


def stopped_with_a_gap(tale: Tale) -> None:
    table(tale)
    put(tale, "a")
    tale.note("stream-gap", table="T", topic="log")
    stream(tale)
    scan(tale, (KEY, {"tag": "a"}))


def all_before_its_gap(tale: Tale) -> None:
    stopped_at(tale, 20, image_change(1, tag="a"))


def stopped_at(tale: Tale, gap_ms: int, *images: dict[str, Any]) -> None:
    """The log has changes of 10 and of 20."""
    table(tale, log="MUTATE_LOG", img="RECORD_IMAGE")
    put(tale, "a")
    put(tale, "b")
    tale.note("stream-gap", table="T", topic="img", gap_ms=gap_ms)
    stream(tale, put_change(1, "a"), put_change(2, "b"))
    stream(tale, *images, topic="img")
    scan(tale, (KEY, {"tag": "b"}))


def starts_again_once_expired(tale: Tale) -> None:
    after_a_ttl(tale, 3, 159, (KEY, {"n": 3}))


def after_a_ttl(tale: Tale, result: int, scanned_ms: int, *rows: tuple[str, Any]) -> None:
    """A row of 50 ms is put at 10 and incremented by 3 at 110."""
    tale.note("table", table="T", streams={"log": "MUTATE_LOG"}, ttl_ms=50)
    put(tale, "a")
    add(tale, 3, result)
    stream(tale, put_change(1, "a"), {**add_change(2, 3, result), "timestamp_ms": 110})
    found = tale.begin("scan", table="T", final=True)
    tale.ok(found, rows=[list(row) for row in rows], wall_ms=[scanned_ms, scanned_ms])


def dropped_before_all_was_published(tale: Tale) -> None:
    """What is unknown of it may be done to the table that is made after it."""
    table(tale)
    put(tale, "a")
    put(tale, "b")
    put(tale, "c", "unknown")
    tale.note("table-dropped", table="T")
    tale.note("table", table="T2", streams={"log2": "MUTATE_LOG"}, former=["T"])
    stream(tale, put_change(1, "a"))
    again = tale.begin("changes", table="T2", topic="log2", partition=0)
    tale.ok(again, start=0, next=1, changes=[[0, put_change(1, "c")]])


def replaced_at_once(tale: Tale) -> None:
    """Of two puts at once either may be the last."""
    table(tale)
    first = begin(tale, "put", columns={"tag": "a"})
    put(tale, "b")
    tale.ok(first, success=True)
    stream(tale, put_change(1, "b"), put_change(2, "a"))
    scan(tale, (KEY, {"tag": "a"}))


def index_agrees(tale: Tale) -> None:
    scan_by_index(tale, "r", "a")


# --- bad ones -------------------------------------------------------------------------------------


def missing_before_its_gap(tale: Tale) -> None:
    stopped_at(tale, 20)


def mark_behind_its_gap(tale: Tale) -> None:
    table(tale)
    mark(tale, 25, 0)
    tale.note("stream-gap", table="T", topic="log", gap_ms=20)
    stream(tale)


def left_out_before_the_drop(tale: Tale) -> None:
    table(tale)
    put(tale, "a")
    put(tale, "b")
    tale.note("table-dropped", table="T")
    stream(tale, put_change(2, "b"))


def done_to_a_former_table(tale: Tale) -> None:
    """Its caller received an acknowledgement."""
    table(tale)
    put(tale, "a")
    tale.note("table-dropped", table="T")
    tale.note("table", table="T2", streams={"log2": "MUTATE_LOG"}, former=["T"])
    again = tale.begin("changes", table="T2", topic="log2", partition=0)
    tale.ok(again, start=0, next=1, changes=[[0, put_change(1, "a")]])


def delivered(tale: Tale, *changes: dict[str, Any]) -> None:
    """The log of a table that got a put and an increment."""
    table(tale)
    put(tale, "a")
    add(tale, 3, 3)
    stream(tale, *changes)


def never_published(tale: Tale) -> None:
    delivered(tale, put_change(1, "a"))


def a_remove_never_published(tale: Tale) -> None:
    table(tale)
    put(tale, "a")
    remove(tale)
    put(tale, "b")
    stream(tale, put_change(1, "a"), put_change(2, "b"))


def an_unknown_one_left_out(tale: Tale) -> None:
    table(tale)
    put(tale, "a", "unknown")
    put(tale, "b")
    stream(tale, put_change(2, "b"))


def not_published_since_it_is_on_again(tale: Tale) -> None:
    off_for_a_while(tale)
    put(tale, "d")


def no_image_of_it(tale: Tale) -> None:
    table(tale, img="RECORD_IMAGE")
    put(tale, "a")
    stream(tale, image_change(1, tag="b"), topic="img")


def only_the_other_stream_publishes(tale: Tale) -> None:
    table(tale, log="MUTATE_LOG", img="RECORD_IMAGE")
    put(tale, "a", "unknown")
    stream(tale, topic="log")
    stream(tale, image_change(1, tag="a"), topic="img")


def condition_failed_but_published(tale: Tale) -> None:
    table(tale)
    put(tale, "a", "refused", condition={"row_exists": True})
    stream(tale, put_change(1, "a"))


def refused_but_published(tale: Tale) -> None:
    table(tale)
    put(tale, "a", "fail")
    stream(tale, put_change(1, "a"))


def published_twice_as_two(tale: Tale) -> None:
    table(tale)
    put(tale, "a")
    stream(tale, put_change(1, "a"), put_change(2, "a"))


def later_change_first(tale: Tale) -> None:
    delivered(tale, add_change(2, 3, 3), put_change(1, "a"))


def made_before_but_published_after(tale: Tale) -> None:
    delivered(tale, add_change(1, 3, 3), put_change(2, "a"))


def in_two_partitions(tale: Tale) -> None:
    delivered(tale, put_change(1, "a"))
    stream(tale, add_change(2, 3, 3), partition=1)


def done_twice(tale: Tale) -> None:
    table(tale)
    add(tale, 3, 6)
    stream(tale, add_change(1, 3, 3), add_change(2, 3, 6))


def does_not_add_up(tale: Tale) -> None:
    delivered(tale, put_change(1, "a"), add_change(2, 3, 6))


def another_sum_was_answered(tale: Tale) -> None:
    table(tale)
    add(tale, 3, 9)
    stream(tale, add_change(1, 3, 3))


def log_leads_elsewhere(tale: Tale) -> None:
    table(tale)
    put(tale, "a")
    put(tale, "b", "unknown")
    stream(tale, put_change(1, "a"))
    scan(tale, (KEY, {"tag": "b"}))


def image_is_not_the_row(tale: Tale) -> None:
    table(tale, img="RECORD_IMAGE")
    put(tale, "a")
    stream(tale, image_change(1, tag="a", n=1), topic="img")
    scan(tale, (KEY, {"tag": "a"}))


def image_is_not_what_the_log_makes(tale: Tale) -> None:
    table(tale, log="MUTATE_LOG", img="RECORD_IMAGE")
    put(tale, "a")
    put(tale, "b")
    stream(tale, put_change(1, "a"), put_change(2, "b"))
    stream(tale, image_change(1, tag="a", n=7), image_change(2, tag="b"), topic="img")


def resent_as_another(tale: Tale) -> None:
    delivered(tale, put_change(1, "a"), add_change(2, 3, 3), put_change(1, "a", time_ms=11))


def another_time_in_the_other_stream(tale: Tale) -> None:
    table(tale, log="MUTATE_LOG", img="RECORD_IMAGE")
    put(tale, "a")
    stream(tale, put_change(1, "a", time_ms=9))
    stream(tale, image_change(1, tag="a"), topic="img")


def same_time_twice(tale: Tale) -> None:
    table(tale)
    put(tale, "a")
    put(tale, "b")
    stream(tale, put_change(1, "a", time_ms=9), put_change(2, "b", time_ms=9))


def acked_and_not_there(tale: Tale) -> None:
    table(tale)
    put(tale, "a")
    scan(tale)


def acked_and_another_there(tale: Tale) -> None:
    table(tale)
    put(tale, "a", "unknown")
    put(tale, "b", "fail")
    put(tale, "c")
    remove(tale, key="other")
    scan(tale, (KEY, {"tag": "b"}))


def removed_and_there(tale: Tale) -> None:
    table(tale)
    put(tale, "a")
    remove(tale)
    scan(tale, (KEY, {"tag": "a"}))


def done_against_its_condition(tale: Tale) -> None:
    table(tale)
    put(tale, "a")
    put(tale, "b", condition={"field": "tag", "operator": 1, "value": "x"})
    stream(tale, put_change(1, "a"), put_change(2, "b"))


def done_though_the_row_was_there(tale: Tale) -> None:
    table(tale)
    put(tale, "a")
    put(tale, "b", condition={"row_exists": False})
    stream(tale, put_change(1, "a"), put_change(2, "b"))


def mark_in_front_of_a_change(tale: Tale) -> None:
    table(tale)
    put(tale, "a")
    put(tale, "b")
    mark(tale, 20, 1)
    stream(tale, put_change(1, "a"), put_change(2, "b"))


def scan_by_index(tale: Tale, key: str, value: str) -> None:
    table(tale)
    put(tale, "a")
    stream(tale, put_change(1, "a"))
    scan(tale, (KEY, {"tag": "a"}))
    scan(tale, (key, {"tag": value}), index="by tag", column="tag")


CASES: dict[str, tuple[list[Story], list[Story]]] = {
    "missing-mutation": (
        [
            never_published,
            a_remove_never_published,
            an_unknown_one_left_out,
            not_published_since_it_is_on_again,
            no_image_of_it,
            only_the_other_stream_publishes,
            missing_before_its_gap,
            left_out_before_the_drop,
        ],
        [
            every_kind_once_and_again,
            two_views_agree,
            off_for_a_while,
            stopped_with_a_gap,
            all_before_its_gap,
            dropped_before_all_was_published,
            starts_again_once_expired,
        ],
    ),
    "cdc-phantom": (
        [
            condition_failed_but_published,
            refused_but_published,
            published_twice_as_two,
            done_to_a_former_table,
        ],
        [every_kind_once_and_again, dropped_before_all_was_published],
    ),
    "cdc-row-inversion": (
        [later_change_first, made_before_but_published_after, in_two_partitions],
        [every_kind_once_and_again, replaced_at_once],
    ),
    "cdc-double-increment": (
        [done_twice, does_not_add_up, another_sum_was_answered],
        [every_kind_once_and_again],
    ),
    "table-differs": (
        [
            log_leads_elsewhere,
            image_is_not_the_row,
            image_is_not_what_the_log_makes,
            lambda tale: after_a_ttl(tale, 3, 160, (KEY, {"n": 3})),
            lambda tale: after_a_ttl(tale, 3, 159, (KEY, {"tag": "a", "n": 3})),
            lambda tale: after_a_ttl(tale, 3, 159),
        ],
        [
            two_views_agree,
            starts_again_once_expired,
            lambda tale: after_a_ttl(tale, 3, 160),
        ],
    ),
    "resend-differs": (
        [resent_as_another, another_time_in_the_other_stream],
        [every_kind_once_and_again],
    ),
    "timestamp-went-back": ([same_time_twice], [every_kind_once_and_again]),
    "lost-row-write": (
        [acked_and_not_there, acked_and_another_there, removed_and_there],
        [replaced_at_once],
    ),
    "wrong-condition": (
        [done_against_its_condition, done_though_the_row_was_there],
        [every_kind_once_and_again],
    ),
    "mark-too-early": (
        [mark_in_front_of_a_change, mark_behind_its_gap],
        [every_kind_once_and_again],
    ),
    "index-differs": (
        [
            lambda tale: scan_by_index(tale, "r", "b"),
            lambda tale: scan_by_index(tale, "gone", "a"),
        ],
        [index_agrees],
    ),
}
