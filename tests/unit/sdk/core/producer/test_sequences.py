"""Stamps of an idempotent producer: without gaps, and a new epoch where the next one is unknown."""

from opentalos.model.message import ProducerStamp
from opentalos.sdk.core.producer.sequences import Sequences


def test_every_partition_counts_its_own_messages() -> None:
    sequences = Sequences(7)
    for partition, messages in ((0, 3), (1, 1), (0, 2)):
        sequences.stamp("t", partition)
        sequences.stored(partition, messages)
    assert sequences.stamp("t", 0) == ProducerStamp(7, 0, 5)
    assert sequences.stamp("t", 1) == ProducerStamp(7, 0, 1)


def test_a_put_that_is_not_stored_leaves_its_stamp_to_the_next_one() -> None:
    sequences = Sequences(7)
    assert sequences.stamp("t", 0) == sequences.stamp("t", 0)


def test_a_new_epoch_starts_at_zero() -> None:
    sequences = Sequences(7)
    sequences.stamp("t", 0)
    sequences.stored(0, 4)
    sequences.renew(0)
    assert sequences.stamp("t", 0) == ProducerStamp(7, 1, 0)


def test_a_recreated_topic_gets_a_new_epoch() -> None:
    sequences = Sequences(7)
    sequences.stamp("old", 0)
    sequences.stored(0, 4)
    assert sequences.stamp("new", 0) == ProducerStamp(7, 1, 0)
