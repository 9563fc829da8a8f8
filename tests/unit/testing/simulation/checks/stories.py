"""Hand-made histories: for every anomaly some that have it, and some that only look like it."""

from collections.abc import Callable

from tests.unit.testing.simulation.checks.tale import Tale

Story = Callable[[Tale], None]


# --- messages -----------------------------------------------------------------------------------


def acked_and_gone(tale: Tale) -> None:
    tale.put("a")
    tale.put("b")
    tale.final(0, "a")


def unknown_and_gone(tale: Tale) -> None:
    tale.put("a")
    tale.put("b", outcome="unknown")
    tale.put("c", outcome="open")
    tale.final(0, "a")


def acked_seen_and_gone_from_the_middle(tale: Tale) -> None:
    tale.put("a")
    tale.put("b")
    tale.read(0, "a", "b")
    tale.final(0, "a", "x")
    tale.put("x", outcome="unknown")


def acked_never_seen_but_behind_what_expired(tale: Tale) -> None:
    tale.put("a")
    tale.read(0, "a")
    tale.range(0, 1)
    tale.put("b")
    tale.final(1)


def acked_and_expired(tale: Tale) -> None:
    tale.put("a")
    tale.put("b")
    tale.put("c")
    tale.read(1, "b")
    tale.final(2, "c")


def more_acked_than_expired(tale: Tale) -> None:
    for message in ("a", "b", "c"):
        tale.put(message)
    tale.final(2)


def flushed_and_lost_by_power(tale: Tale) -> None:
    tale.note("topic", topic="t", durability="flushed")
    tale.put("a")
    tale.read(0, "a")
    tale.note("power-loss")
    tale.put("b")
    tale.final(0, "b")


def synced_and_lost_by_power(tale: Tale) -> None:
    tale.note("topic", topic="t", durability="synced")
    tale.put("a")
    tale.note("power-loss")
    tale.put("b")
    tale.final(0, "b")


def unknown_seen_and_gone(tale: Tale) -> None:
    tale.put("a", outcome="unknown")
    tale.read(0, "a")
    tale.final(0)


def unknown_seen_and_kept(tale: Tale) -> None:
    tale.put("a", outcome="unknown")
    tale.read(0, "a")
    tale.final(0, "a")


def nobody_sent_it(tale: Tale) -> None:
    tale.put("a")
    tale.final(0, "a", "ghost")


def not_done_but_there(tale: Tale) -> None:
    tale.put("a", outcome="fail")
    tale.final(0, "a")


def not_done_first_and_done_later(tale: Tale) -> None:
    tale.put("a", outcome="fail")
    tale.put("a")
    tale.final(0, "a")


def not_done_but_read(tale: Tale) -> None:
    tale.put("a", outcome="fail")
    tale.read(0, "a")


def acked_once_and_there_twice(tale: Tale) -> None:
    tale.put("a")
    tale.final(0, "a", "a")


def retried_and_there_twice(tale: Tale) -> None:
    tale.put("a", outcome="unknown")
    tale.put("a")
    tale.final(0, "a", "a")


def idempotent_retried_and_there_twice(tale: Tale) -> None:
    tale.put("a", outcome="unknown", idempotent=True)
    tale.put("a", idempotent=True)
    tale.final(0, "a", "a")


def idempotent_retried_and_there_once(tale: Tale) -> None:
    tale.put("a", outcome="unknown", idempotent=True)
    tale.put("a", idempotent=True)
    tale.final(0, "a")


def other_bytes(tale: Tale) -> None:
    tale.put("a")
    tale.read(0, None)


def later_in_front(tale: Tale) -> None:
    tale.put("a")
    tale.put("b")
    tale.final(0, "b", "a")


def concurrent_in_any_order(tale: Tale) -> None:
    first = tale.begin("put", ids=["a"])
    second = tale.begin("put", ids=["b"])
    tale.ok(first)
    tale.ok(second)
    tale.final(0, "b", "a")


# --- offsets ------------------------------------------------------------------------------------


def final_with_times(tale: Tale, *times: int) -> None:
    tale.put("a", "b")
    operation = tale.begin("read", process="final", offset=-1, final=True)
    blocks = [[offset, [name]] for offset, name in enumerate("ab")]
    stamped = list(enumerate(times))
    tale.ok(operation, blocks=blocks, start=0, next=2, times=stamped)


def one_offset_two_messages(tale: Tale) -> None:
    tale.put("a", outcome="unknown")
    tale.put("b")
    tale.read(0, "a")
    tale.final(0, "b")


def one_offset_acked_twice(tale: Tale) -> None:
    for message in ("a", "b"):
        tale.ok(tale.begin("put", ids=[message]), offset=0)


def a_hole_in_an_answer(tale: Tale) -> None:
    tale.put("a")
    tale.put("b")
    tale.ok(tale.begin("read", offset=0), blocks=[[0, ["a"]], [2, ["b"]]])


def a_final_log_that_ends_early(tale: Tale) -> None:
    tale.put("a")
    tale.final(0, "a", following=2)


def given_again(tale: Tale) -> None:
    tale.put("a", "b")
    tale.poll(0, "a", "b")
    tale.poll(0, "a")


def given_again_in_a_new_session(tale: Tale) -> None:
    tale.put("a", "b")
    tale.poll(0, "a", "b")
    operation = tale.begin("poll", process="c", session=2)
    tale.ok(operation, blocks=[[0, ["a"]]])


def left_out(tale: Tale) -> None:
    tale.put("a", "b", "c")
    tale.poll(0, "a")
    tale.poll(2, "c")
    tale.final(0, "a", "b", "c")


def left_out_because_expired(tale: Tale) -> None:
    tale.put("a", "b", "c")
    tale.poll(0, "a")
    tale.poll(2, "c")
    tale.final(2, "c")


def refused_inside_the_log(tale: Tale) -> None:
    tale.put("a", "b")
    tale.read(0, "a", "b")
    tale.refuse("read", "OffsetOutOfRange: 1", offset=1)
    tale.final(0, "a", "b")


def refused_below_the_start(tale: Tale) -> None:
    tale.put("a", "b")
    tale.refuse("read", "OffsetOutOfRange: 0", offset=0)
    tale.refuse("read", "OffsetOutOfRange: 9", offset=9)
    tale.final(1, "b")


def called_corrupt(tale: Tale) -> None:
    tale.put("a")
    tale.refuse("read", "CorruptLog: block", offset=0)


def called_corrupt_and_so_it_is(tale: Tale) -> None:
    tale.put("a")
    tale.note("rot", topic="t", partition=0)
    tale.refuse("read", "CorruptLog: block", offset=0)


def start_back(tale: Tale) -> None:
    tale.range(5, 9)
    tale.range(4, 9)


def start_forward(tale: Tale) -> None:
    tale.range(4, 9)
    tale.range(5, 9)


def next_back(tale: Tale) -> None:
    tale.range(0, 9)
    tale.range(0, 8)


def nothing_yet_though_shown(tale: Tale) -> None:
    tale.put("a")
    tale.read(0, "a", server="s1")
    tale.read(0, server="s1")


def nothing_yet_at_another_server(tale: Tale) -> None:
    tale.put("a")
    tale.read(0, "a", server="s1")
    tale.read(0, server="zombie")


# --- groups -------------------------------------------------------------------------------------


def commit_of_the_former_holder(tale: Tale) -> None:
    tale.put("a", "b")
    tale.lease("lock", "w1")
    tale.tick(40)
    tale.lease("lock", "w2")
    tale.lease("commit", "w1", offset=0)


def commit_without_any_lease(tale: Tale) -> None:
    tale.put("a")
    tale.lease("commit", "w1", offset=0)


def commit_after_the_other_lease_ran_out(tale: Tale) -> None:
    tale.put("a", "b")
    tale.lease("lock", "w1")
    tale.lease("unlock", "w1")
    tale.lease("lock", "w2")
    tale.tick(31)
    tale.lease("lock", "w1")
    tale.lease("commit", "w1", offset=0)


def commit_against_a_renewed_lease(tale: Tale) -> None:
    commit_after_the_other_lease_ran_out(tale)
    tale.lease("unlock", "w1")
    tale.lease("lock", "w2")
    for _ in range(3):
        tale.tick(20)
        tale.ok(tale.begin("renew", worker="w2", partitions=[0]), failed=[])
    tale.lease("commit", "w1", offset=1)


def commit_after_a_reset(tale: Tale) -> None:
    tale.put("a", "b")
    tale.lease("lock", "w1")
    tale.ok(tale.begin("reset", offset=-1))
    tale.lease("commit", "w1", offset=0)


def commit_of_one_that_came_back_after_a_reset(tale: Tale) -> None:
    tale.put("a", "b")
    tale.lease("lock", "w1")
    tale.ok(tale.begin("reset", offset=-1))
    tale.ok(tale.begin("renew", worker="w1", partitions=[0]), failed=[])
    tale.lease("commit", "w1", offset=0)


def checkpoint_forgotten(tale: Tale) -> None:
    tale.put("a", "b")
    tale.lease("lock", "w1")
    tale.lease("commit", "w1", offset=0)
    tale.lease("commit", "w1", offset=1)
    tale.ok(tale.begin("checkpoint"), offset=0)


def checkpoint_never_set(tale: Tale) -> None:
    tale.ok(tale.begin("checkpoint"), offset=3)


def checkpoint_kept(tale: Tale) -> None:
    tale.put("a", "b")
    tale.lease("lock", "w1")
    tale.ok(tale.begin("checkpoint"), offset=-1)
    tale.lease("commit", "w1", offset=1)
    unknown = tale.begin("commit", process="w1", worker="w1", offset=0)
    tale.recorder.unknown(unknown, "OutcomeUnknown")
    tale.ok(tale.begin("checkpoint"), offset=1)
    tale.ok(tale.begin("checkpoint"), offset=0)


def checkpoint_gone_with_its_topic(tale: Tale) -> None:
    tale.put("a", "b")
    tale.lease("lock", "w1")
    tale.lease("commit", "w1", offset=1)
    tale.ok(tale.begin("delete"))
    tale.ok(tale.begin("checkpoint"), offset=-1)


def commit_of_what_nobody_sent(tale: Tale) -> None:
    tale.put("a")
    tale.lease("lock", "w1")
    tale.lease("commit", "w1", offset=1)


def commit_of_the_last_message(tale: Tale) -> None:
    tale.put("a", "b")
    tale.lease("lock", "w1")
    tale.lease("commit", "w1", offset=1)
    tale.final(0, "a", "b")


def commit_of_what_was_not_delivered(tale: Tale) -> None:
    tale.put("a", "b")
    tale.lease("lock", "c")
    tale.poll(0, "a")
    tale.lease("commit", "c", offset=1)


def commit_of_what_was_delivered(tale: Tale) -> None:
    tale.put("a", "b")
    tale.lease("lock", "c")
    tale.poll(0, "a", "b")
    tale.lease("commit", "c", offset=1)


# --- servers ------------------------------------------------------------------------------------


def old_epoch_after_new(tale: Tale) -> None:
    for epoch in (1, 1, 2, 1):
        tale.note("file-commit", path=f"u/0/{0:020d}-{epoch}.log", process=f"s{epoch}")


def new_epoch_after_old(tale: Tale) -> None:
    for epoch in (1, 1, 2):
        tale.note("file-commit", path=f"u/0/{0:020d}-{epoch}.log", process=f"s{epoch}")
    tale.note("file-commit", path=f"u/0/{7:020d}-1.log", process="s1")  # never registered
    tale.note("file-commit", path=f"u/1/{0:020d}-1.log", process="s1")


def stranger_reads(tale: Tale) -> None:
    tale.read(0, granted=False)


def stranger_learns(tale: Tale) -> None:
    tale.refuse("read", "PermissionDenied", offset=0, granted=False)


def stranger_learns_nothing(tale: Tale) -> None:
    tale.refuse("read", "TopicNotExist", offset=0, granted=False)


def message_of_another_topic(tale: Tale) -> None:
    tale.put("a", topic="other")
    tale.put("b")
    tale.read(0, "a")


def fails_when_healed(tale: Tale) -> None:
    tale.refuse("put", "Unavailable", ids=["a"], healed=True)


def fails_while_faults_last(tale: Tale) -> None:
    tale.refuse("put", "Unavailable", ids=["a"])


CASES: dict[str, tuple[list[Story], list[Story]]] = {
    "lost-write": (
        [
            acked_and_gone,
            acked_seen_and_gone_from_the_middle,
            acked_never_seen_but_behind_what_expired,
            more_acked_than_expired,
            synced_and_lost_by_power,
        ],
        [unknown_and_gone, acked_and_expired, flushed_and_lost_by_power],
    ),
    "dirty-read": ([unknown_seen_and_gone], [unknown_seen_and_kept, flushed_and_lost_by_power]),
    "phantom": ([nobody_sent_it, not_done_but_there], [not_done_first_and_done_later]),
    "aborted-read": ([not_done_but_read], [not_done_first_and_done_later]),
    "duplicate": (
        [acked_once_and_there_twice, idempotent_retried_and_there_twice],
        [retried_and_there_twice, idempotent_retried_and_there_once],
    ),
    "corrupt-payload": ([other_bytes], [unknown_seen_and_kept]),
    "order-inversion": ([later_in_front], [concurrent_in_any_order]),
    "inconsistent-offsets": (
        [one_offset_two_messages, one_offset_acked_twice],
        [flushed_and_lost_by_power],
    ),
    "offset-gap": (
        [a_hole_in_an_answer, a_final_log_that_ends_early],
        [concurrent_in_any_order],
    ),
    "nonmonotonic-poll": ([given_again], [given_again_in_a_new_session]),
    "poll-skip": ([left_out], [left_out_because_expired]),
    "false-out-of-range": ([refused_inside_the_log], [refused_below_the_start]),
    "unreadable": ([called_corrupt], [called_corrupt_and_so_it_is]),
    "start-offset-went-back": ([start_back], [start_forward]),
    "next-offset-went-back": ([next_back], [start_forward]),
    "append-time-went-back": (
        [lambda tale: final_with_times(tale, 7, 6)],
        [lambda tale: final_with_times(tale, 7, 7)],
    ),
    "stale-read": ([nothing_yet_though_shown], [nothing_yet_at_another_server]),
    "stale-commit": (
        [
            commit_of_the_former_holder,
            commit_without_any_lease,
            commit_against_a_renewed_lease,
            commit_after_a_reset,
        ],
        [commit_after_the_other_lease_ran_out, commit_of_one_that_came_back_after_a_reset],
    ),
    "lost-checkpoint": (
        [checkpoint_forgotten, checkpoint_never_set],
        [checkpoint_kept, checkpoint_gone_with_its_topic],
    ),
    "commit-beyond-end": ([commit_of_what_nobody_sent], [commit_of_the_last_message]),
    "commit-beyond-read": ([commit_of_what_was_not_delivered], [commit_of_what_was_delivered]),
    "two-writers": ([old_epoch_after_new], [new_epoch_after_old]),
    "tenant-leak": (
        [stranger_reads, stranger_learns, message_of_another_topic],
        [stranger_learns_nothing],
    ),
    "stuck-partition": ([fails_when_healed], [fails_while_faults_last]),
    "verify-fault": ([lambda tale: tale.note("verify-fault")], [acked_and_expired]),
    "left-behind": ([lambda tale: tale.note("left-behind")], [acked_and_expired]),
    "journal-left": ([lambda tale: tale.note("journal-left")], [acked_and_expired]),
    "unanswered": ([lambda tale: tale.note("unanswered", text="put")], [acked_and_expired]),
    "answered-twice": ([lambda tale: tale.note("answered-twice")], [acked_and_expired]),
    "unhandled-error": ([lambda tale: tale.note("unhandled-error")], [acked_and_expired]),
    "deadlock": ([lambda tale: tale.note("deadlock")], [acked_and_expired]),
}
