"""Batches that are sent again with the same stamps, as from Spark: each message is stored once."""

from typing import Any

import pytest
from tests.simulation.mutants import CRASHES, Mutant, _names
from tests.simulation.proof import prove_caught

from opentalos.log.segment.producers import Producer, ProducerTable
from opentalos.model.message import ProducerStamp
from opentalos.testing.simulation.seed_run import run_batch_seed

SEEDS = 12


def forget_the_epoch_of_a_batch(patch: pytest.MonkeyPatch) -> None:
    """What an attempt of an older batch sends is taken as that of a new one."""
    real = ProducerTable.check

    def check(
        self: ProducerTable, principal: int, stamp: ProducerStamp, messages: int, *form: int
    ) -> Any:
        known = self.find(principal, stamp.producer_id)
        if known is not None and stamp.epoch < known.epoch:
            return None
        return real(self, principal, stamp, messages, *form)

    patch.setattr(ProducerTable, "check", check)


def know_only_the_blocks_that_are_kept(patch: pytest.MonkeyPatch) -> None:
    """A block older than the last five restarts the batch."""
    real = ProducerTable.check

    def check(
        self: ProducerTable, principal: int, stamp: ProducerStamp, messages: int, *form: int
    ) -> Any:
        known = self.find(principal, stamp.producer_id)
        if known is not None and known.epoch == stamp.epoch:
            kept = known.batches[0].sequence if known.batches else 0
            if stamp.sequence < kept:
                known = Producer(stamp.epoch)
                known.next_sequence = stamp.sequence
                self.share(principal).producers[stamp.producer_id] = known
        return real(self, principal, stamp, messages, *form)

    patch.setattr(ProducerTable, "check", check)


MUTANTS = [
    Mutant("forget the epoch of a batch", _names("duplicate"), forget_the_epoch_of_a_batch),
    Mutant(
        "know only the blocks that are kept",
        _names("duplicate"),
        know_only_the_blocks_that_are_kept,
    ),
]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_batch_sent_again_is_stored_once(seed: int) -> None:
    report = run_batch_seed(seed)
    assert report.ok, report


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_caught_by_name(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    prove_caught(mutant, CRASHES, run_batch_seed, monkeypatch)


def test_batches_are_replayed_and_late_attempts_are_fenced() -> None:
    puts = [
        put
        for seed in range(3)
        for put in run_batch_seed(seed, CRASHES).history.operations
        if put.action == "put"
    ]
    assert sum(put.error.startswith("ProducerFenced") for put in puts) > 0
    done = [tuple(put.args["ids"]) for put in puts if put.ok]
    assert len(set(done)) < len(done)
