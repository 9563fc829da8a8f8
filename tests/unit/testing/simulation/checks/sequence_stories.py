"""Hand-made histories of idempotent puts refused for a gap; see ``stories``."""

from tests.unit.testing.simulation.checks.stories import Story
from tests.unit.testing.simulation.checks.tale import Tale


def refused(tale: Tale, server: str = "s1") -> None:
    tale.refuse("put", "SequenceGap: expected 0", ids=["a"], idempotent=True, server=server)


def refused_though_the_power_was_lost(tale: Tale) -> None:
    tale.note("power-loss")
    refused(tale)


def refused_for_a_gap_that_the_power_tore(tale: Tale) -> None:
    tale.note("topic", topic="t", durability="flushed")
    refused_though_the_power_was_lost(tale)


def usurped(tale: Tale) -> None:
    tale.note("usurped", server="s1", by="s2")


def deleted(tale: Tale, server: str, topic: str = "t") -> None:
    tale.ok(tale.begin("delete", server=server, topic=topic))


def refused_by_a_rival_of_the_one_that_deleted(tale: Tale) -> None:
    usurped(tale)
    deleted(tale, "s2")
    refused(tale)


def refused_while_a_rival_may_have_deleted(tale: Tale) -> None:
    usurped(tale)
    put = tale.begin("put", ids=["a"], idempotent=True, server="s2")
    tale.begin("delete", server="s1")  # never answered
    tale.tick()
    tale.recorder.fail(put, "SequenceGap: expected 0")


def refused_before_a_rival_deleted(tale: Tale) -> None:
    usurped(tale)
    refused(tale)
    deleted(tale, "s2")


def refused_by_the_server_that_deleted(tale: Tale) -> None:
    usurped(tale)
    deleted(tale, "s1")
    refused(tale)


def refused_after_a_deletion_that_was_not_done(tale: Tale) -> None:
    usurped(tale)
    tale.refuse("delete", "Unavailable", server="s2")
    refused(tale)


def refused_after_a_rival_deleted_another_topic(tale: Tale) -> None:
    usurped(tale)
    deleted(tale, "s2", topic="other")
    refused(tale)


def refused_by_a_server_without_a_rival(tale: Tale) -> None:
    usurped(tale)
    deleted(tale, "s2")
    refused(tale, "s3")


def refused_after_a_deletion_in_a_cluster(tale: Tale) -> None:
    deleted(tale, "s2")
    refused(tale)


def refused_behind_another_batch(tale: Tale) -> None:
    error = "SequenceGap: sequence 1, expected 0"
    tale.refuse("put", error, ids=["a"], idempotent=True, pipelined=True, server="s1")


CASES: dict[str, tuple[list[Story], list[Story]]] = {
    "false-sequence-gap": (
        [
            refused,
            refused_though_the_power_was_lost,
            refused_before_a_rival_deleted,
            refused_by_the_server_that_deleted,
            refused_after_a_deletion_that_was_not_done,
            refused_after_a_rival_deleted_another_topic,
            refused_by_a_server_without_a_rival,
            refused_after_a_deletion_in_a_cluster,
        ],
        [
            refused_for_a_gap_that_the_power_tore,
            refused_by_a_rival_of_the_one_that_deleted,
            refused_while_a_rival_may_have_deleted,
            refused_behind_another_batch,
        ],
    ),
}
