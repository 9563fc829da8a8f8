"""Producers of the SDK in the simulated world: a put is stored once, whatever its retries meet."""

from dataclasses import replace

import pytest
from tests.simulation.mutants import CRASHES, Mutant, _names
from tests.simulation.proof import prove_caught

from opentalos.model.errors import OutcomeUnknown, TalosError
from opentalos.sdk.aio.producer import idempotent_put
from opentalos.sdk.core.producer.sequences import Sequences
from opentalos.sdk.core.retry import RetryPolicy
from opentalos.testing.simulation.seed_run import run_sdk_seed
from opentalos.testing.simulation.world.bounds import Bounds
from opentalos.testing.simulation.world.world import WorldConfig

SEEDS = 5
# Logs that forget producers all the time, so retries meet gaps.
FORGETFUL = replace(CRASHES, bounds=Bounds(producers_max=1, producers_of_principal_max=1))


def renew_stores_twice(patch: pytest.MonkeyPatch) -> None:
    """A gap is taken for a forgotten idle producer, also after an attempt that may be stored."""

    def end(_: RetryPolicy, error: TalosError) -> None:
        raise error

    patch.setattr(RetryPolicy, "_end", end)


def put_again_after_an_unknown_outcome(patch: pytest.MonkeyPatch) -> None:
    """An unknown outcome renews the epoch, and the block is put again in the new one."""
    real = idempotent_put.put_once

    async def put_once(*args: object) -> object:
        try:
            return await real(*args)  # type: ignore[arg-type]
        except OutcomeUnknown:
            return await real(*args)  # type: ignore[arg-type]

    patch.setattr("opentalos.sdk.aio.producer.simple_producer.put_once", put_once)


def keep_the_epoch_after_an_unknown_outcome(patch: pytest.MonkeyPatch) -> None:
    """The next put has the stamp of one that may be stored: it is answered as its duplicate, or
    refused for good."""
    patch.setattr(Sequences, "renew", lambda *_: None)


MUTANTS = [
    (Mutant("renew stores twice", _names("duplicate"), renew_stores_twice), FORGETFUL),
    (
        Mutant(
            "put again after an unknown outcome",
            _names("duplicate"),
            put_again_after_an_unknown_outcome,
        ),
        FORGETFUL,
    ),
    (
        Mutant(
            "keep the epoch after an unknown outcome",
            _names("lost-write", "false-sequence-gap"),
            keep_the_epoch_after_an_unknown_outcome,
        ),
        CRASHES,
    ),
]


@pytest.mark.parametrize("config", [CRASHES, FORGETFUL], ids=["crashes", "forgetful"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_put_of_the_sdk_is_stored_once(seed: int, config: WorldConfig) -> None:
    report = run_sdk_seed(seed, config)
    assert report.ok, report


def test_retries_meet_gaps_and_logs_that_forgot_producers() -> None:
    puts = [put for seed in range(4) for put in run_sdk_seed(seed, FORGETFUL).history.of("put")]
    assert sum(put.ok for put in puts) > 100
    assert any("then SequenceGap" in put.error for put in puts), "no gap after an unknown outcome"


def test_a_seed_gives_the_same_history() -> None:
    assert run_sdk_seed(3, FORGETFUL).digest() == run_sdk_seed(3, FORGETFUL).digest()


@pytest.mark.parametrize(
    ("mutant", "config"), MUTANTS, ids=lambda given: getattr(given, "name", "")
)
def test_a_mutant_is_caught_by_name(
    mutant: Mutant, config: WorldConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    prove_caught(mutant, config, run_sdk_seed, monkeypatch)
