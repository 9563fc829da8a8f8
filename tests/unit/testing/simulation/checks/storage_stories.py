"""Hand-made histories of storage that loops, hangs, cuts or deletes too early; see ``stories``."""

from typing import Any

from tests.unit.testing.simulation.checks.stories import Story
from tests.unit.testing.simulation.checks.tale import Tale

from opentalos.testing.simulation.checks.storage import OPENINGS_MIN


def settings(tale: Tale, **more: Any) -> None:
    tale.note("settings", lease_s=6.0, **more)


def put_at(tale: Tale, message_id: str, offset: int, **args: Any) -> None:
    tale.ok(tale.begin("put", ids=[message_id], **args), offset=offset)


def waiting_put(tale: Tale, wait_s: float, **args: Any) -> None:
    put = tale.begin("put", ids=["a"], **args)
    tale.tick(wait_s)
    tale.recorder.unknown(put, "OutcomeUnknown")


# --- openings -----------------------------------------------------------------------------------


def opened(tale: Tale, times: int) -> None:
    for _ in range(times):
        tale.note("opening", topic="t", partition=0)


def opened_for_nobody(tale: Tale) -> None:
    opened(tale, 2 * OPENINGS_MIN)


def opened_now_and_then_by_the_upkeep(tale: Tale) -> None:
    for _ in range(2 * OPENINGS_MIN):
        opened(tale, 1)
        tale.tick(10.0)


def opened_for_puts_that_fail(tale: Tale) -> None:
    for number in range(OPENINGS_MIN + 1):
        opened(tale, 1)
        tale.put(f"m{number}", outcome="fail")


def opened_between_acknowledged_puts(tale: Tale) -> None:
    for number in range(OPENINGS_MIN + 1):
        opened(tale, 1)
        tale.put(f"m{number}")


def opened_for_mutations_of_its_table(tale: Tale) -> None:
    tale.ok(tale.begin("mark", table="T", topic="t"), timestamp_ms=1, offsets=[[0, 0]])
    for number in range(OPENINGS_MIN + 1):
        opened(tale, 1)
        tale.ok(tale.begin("mutate", table="T", key=f"k{number}"))


def opened_beside_mutations_of_another_table(tale: Tale) -> None:
    tale.ok(tale.begin("mark", table="T", topic="t"), timestamp_ms=1, offsets=[[0, 0]])
    for number in range(2 * OPENINGS_MIN):
        opened(tale, 1)
        tale.ok(tale.begin("mutate", table="U", key=f"k{number}"))


# --- deadlines ----------------------------------------------------------------------------------


def no_reply_for_long(tale: Tale) -> None:
    settings(tale, answer_s=5.0)
    waiting_put(tale, 6.0)


def no_reply_of_a_paused_server(tale: Tale) -> None:
    settings(tale, answer_s=5.0)
    put = tale.begin("put", ids=["a"], server="s1")
    tale.note("pause", server="s1")
    tale.tick(4.0)
    tale.note("resume", server="s1")
    tale.recorder.unknown(put, "OutcomeUnknown")


def no_reply_of_a_crashed_server(tale: Tale) -> None:
    settings(tale, answer_s=5.0)
    put = tale.begin("put", ids=["a"])
    tale.tick(9.0)
    tale.recorder.unknown(put, "ServerLost: s1 crashed")


# --- tenants ------------------------------------------------------------------------------------


def beside_one_that_hangs(tale: Tale, outcome: str, tenant: str = "bob", wait_s: float = 0) -> None:
    settings(tale, fair_s=2.0)
    tale.note("tenant-fails", tenant="alice", until_s=8.0)
    tale.tick(wait_s)
    tale.put("a", outcome=outcome, tenant=tenant)


def refused_beside_one_that_hangs(tale: Tale) -> None:
    beside_one_that_hangs(tale, "fail")


def slow_beside_one_that_hangs(tale: Tale) -> None:
    settings(tale, fair_s=2.0)
    tale.note("tenant-fails", tenant="alice", until_s=8.0)
    put = tale.begin("put", ids=["a"], tenant="bob")
    tale.tick(2.0)
    tale.ok(put)


def refused_as_the_one_that_hangs(tale: Tale) -> None:
    beside_one_that_hangs(tale, "fail", tenant="alice")


def refused_after_the_hang(tale: Tale) -> None:
    beside_one_that_hangs(tale, "fail", wait_s=9.0)


# --- poison -------------------------------------------------------------------------------------


def refused(tale: Tale, **args: Any) -> None:
    settings(tale, isolates=True)
    tale.refuse("put", "PartitionNotServing: each commit fails", ids=["a"], **args)


def refused_as_poisonous(tale: Tale) -> None:
    refused(tale, poisonous=True)


def refused_where_others_fail_too(tale: Tale) -> None:
    settings(tale)
    tale.refuse("put", "PartitionNotServing: each commit fails", ids=["a"])


def refused_while_its_topic_is_deleted(tale: Tale) -> None:
    tale.ok(tale.begin("delete"))
    refused(tale)


# --- cuts ---------------------------------------------------------------------------------------


def offset_used_again(tale: Tale) -> None:
    tale.note("rot", topic="t", partition=0)
    put_at(tale, "a", 0)
    put_at(tale, "b", 0)


def read_and_replaced(tale: Tale) -> None:
    put_at(tale, "a", 0)
    tale.read(0, "a")
    tale.put("b", outcome="unknown")
    tale.final(0, "b")


def log_found_shorter(tale: Tale) -> None:
    tale.note("rot", topic="t", partition=0)
    put_at(tale, "a", 0)
    tale.range(0, 1)
    tale.final(0)


def refused_as_damaged(tale: Tale) -> None:
    tale.note("rot", topic="t", partition=0)
    put_at(tale, "a", 0)
    put_at(tale, "b", 1)
    tale.refuse("put", "CorruptLog: acknowledged below offset 2", ids=["c"])
    tale.refuse("range", "CorruptLog: acknowledged below offset 2")
    tale.read(0, "a")


def cut_as_damaged_and_continued(tale: Tale) -> None:
    tale.note("rot", topic="t", partition=0)
    put_at(tale, "a", 0)
    put_at(tale, "b", 1)
    put_at(tale, "c", 1)
    tale.final(0, "a", "c")


def lost_by_power_while_flushed(tale: Tale) -> None:
    tale.note("topic", topic="t", durability="flushed", retention_s=9, retention_bytes=None)
    put_at(tale, "a", 0)
    tale.note("power-loss")
    put_at(tale, "b", 0)
    tale.final(0, "b")


def alter(tale: Tale, **args: Any) -> None:
    tale.ok(tale.begin("alter", **args))


def synced_and_lost_after_a_change(tale: Tale) -> None:
    tale.note("topic", topic="t", durability="synced", retention_s=9, retention_bytes=None)
    put_at(tale, "a", 0)
    alter(tale, durability="flushed")
    tale.note("power-loss")
    put_at(tale, "b", 0)
    tale.final(0, "b")


def flushed_and_lost_after_a_change(tale: Tale) -> None:
    tale.note("topic", topic="t", durability="synced", retention_s=9, retention_bytes=None)
    alter(tale, durability="flushed")
    put_at(tale, "a", 0)
    tale.note("power-loss")
    put_at(tale, "b", 0)
    tale.final(0, "b")


# --- where a damaged log ends ---------------------------------------------------------------------


def damaged(tale: Tale, kind: str = "older") -> None:
    """The storage of a log with two messages comes back damaged."""
    put_at(tale, "a", 0)
    put_at(tale, "b", 1)
    tale.note(kind, topic="t", partition=0, path="log/t/0")


def given_twice(tale: Tale) -> None:
    damaged(tale)
    put_at(tale, "c", 1)


def given_twice_although_proven(tale: Tale) -> None:
    damaged(tale)
    tale.note("set-aside", topic="t", partition=0, proven=True)
    put_at(tale, "c", 1)


def given_twice_and_another_log_was_cut(tale: Tale) -> None:
    damaged(tale)
    tale.note("truncated", topic="t", partition=1)
    put_at(tale, "c", 1)


def given_twice_after_a_reported_cut(tale: Tale) -> None:
    damaged(tale)
    tale.note("set-aside", topic="t", partition=0)
    put_at(tale, "c", 1)
    tale.final(0, "a", "c")


def given_once_more_after_a_refusal(tale: Tale) -> None:
    damaged(tale)
    tale.refuse("put", "CorruptLog: the manifest is older", ids=["c"])
    put_at(tale, "d", 2)
    tale.final(0, "a", "b", "d")


def range_ends_early(tale: Tale) -> None:
    damaged(tale)
    tale.range(0, 1)


def read_finds_nothing(tale: Tale) -> None:
    damaged(tale, "shorter")
    tale.read(1)


def read_is_out_of_range(tale: Tale) -> None:
    settings(tale, keeps=True)
    damaged(tale, "rot")
    tale.refuse("read", "OffsetOutOfRange: 0 to 0", offset=1)


def read_has_nothing_behind(tale: Tale) -> None:
    damaged(tale)
    tale.ok(tale.begin("read", process="c", offset=0), blocks=[[0, ["a"]]], behind=0)


def lag_ends_early(tale: Tale) -> None:
    damaged(tale)
    tale.ok(tale.begin("end", process="c", by="lag"), next=1)


def end_is_not_known(tale: Tale) -> None:
    damaged(tale)
    tale.refuse("range", "CorruptLog: the manifest is older")
    tale.refuse("end", "not known", by="lag")
    tale.ok(tale.begin("read", process="c", offset=0), blocks=[[0, ["a"]]], behind=None)
    tale.refuse("read", "CorruptLog: acknowledged below offset 2", offset=1)


def ends_where_a_cut_was_reported(tale: Tale) -> None:
    damaged(tale, "shorter")
    tale.note("tail-cut", topic="t", partition=0)
    tale.range(0, 1)
    tale.final(0, "a")


def ends_at_a_server_beside_a_rival(tale: Tale) -> None:
    damaged(tale, "rot")
    tale.note("usurped", server="s1", by="s2")
    tale.read(1, server="s1")


def file_is_gone(tale: Tale) -> None:
    damaged(tale)
    tale.note("good-file-deleted", text="t/0/0-1.log: nothing has its messages at 1")


# --- retention ----------------------------------------------------------------------------------


def dropped_at_age(tale: Tale, age_s: float, changed_s: int = 0) -> None:
    settings(tale, retention=True)
    tale.note("topic", topic="t", durability="synced", retention_s=20, retention_bytes=None)
    put_at(tale, "a", 0)
    if changed_s:
        alter(tale, retention_s=changed_s)
    tale.tick(age_s)
    tale.range(1, 1)


def dropped_after_a_late_reply(tale: Tale) -> None:
    """The second attempt tells where the first one stored the message."""
    settings(tale, retention=True)
    tale.note("topic", topic="t", durability="synced", retention_s=20, retention_bytes=None)
    tale.put("a", outcome="unknown")
    tale.tick(15)
    put_at(tale, "a", 0)
    tale.tick(8)
    tale.range(1, 1)


def dropped_by_a_clock_that_counts_as_right(tale: Tale) -> None:
    settings(tale, retention=True, clock_wrong_s=60.0)
    tale.note("topic", topic="t", durability="synced", retention_s=20, retention_bytes=None)
    put_at(tale, "a", 0)
    tale.note("clock-jump", by_ms=15_000)
    tale.tick(8)
    tale.range(1, 1)


def more_files_than_slots(tale: Tale) -> None:
    tale.note("too-many-files", process="s1", count=3, most=2)


def put_at_its_time(tale: Tale) -> None:
    put_at(tale, "a", 0)


CASES: dict[str, tuple[list[Story], list[Story]]] = {
    "livelock": (
        [opened_for_nobody, opened_beside_mutations_of_another_table],
        [
            opened_for_puts_that_fail,
            opened_between_acknowledged_puts,
            opened_for_mutations_of_its_table,
            opened_now_and_then_by_the_upkeep,
        ],
    ),
    "never-answered": (
        [no_reply_for_long],
        [no_reply_of_a_paused_server, no_reply_of_a_crashed_server],
    ),
    "unfair-tenant": (
        [refused_beside_one_that_hangs, slow_beside_one_that_hangs],
        [refused_as_the_one_that_hangs, refused_after_the_hang],
    ),
    "refused-for-another": (
        [refused],
        [
            refused_as_poisonous,
            refused_where_others_fail_too,
            refused_while_its_topic_is_deleted,
        ],
    ),
    "too-many-files": (
        [more_files_than_slots],
        [put_at_its_time],
    ),
    "silent-cut": (
        [
            offset_used_again,
            read_and_replaced,
            log_found_shorter,
            cut_as_damaged_and_continued,
            synced_and_lost_after_a_change,
        ],
        [lost_by_power_while_flushed, flushed_and_lost_after_a_change, refused_as_damaged],
    ),
    "premature-deletion": (
        [lambda tale: dropped_at_age(tale, 10)],
        [
            lambda tale: dropped_at_age(tale, 30),
            lambda tale: dropped_at_age(tale, 10, changed_s=5),
            dropped_after_a_late_reply,
            dropped_by_a_clock_that_counts_as_right,
        ],
    ),
    "offset-given-twice": (
        [
            offset_used_again,
            given_twice,
            given_twice_although_proven,
            given_twice_and_another_log_was_cut,
        ],
        [given_twice_after_a_reported_cut, given_once_more_after_a_refusal],
    ),
    "looks-empty": (
        [
            range_ends_early,
            read_finds_nothing,
            read_is_out_of_range,
            read_has_nothing_behind,
            lag_ends_early,
        ],
        [end_is_not_known, ends_where_a_cut_was_reported, ends_at_a_server_beside_a_rival],
    ),
    "good-file-deleted": ([file_is_gone], [end_is_not_known]),
}
