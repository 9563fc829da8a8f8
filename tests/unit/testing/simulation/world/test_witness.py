"""Failures that a server survives are anomalies all the same."""

import logging

import pytest

from opentalos.model.errors import StoreUnavailable
from opentalos.testing.simulation.checks.checker import check
from opentalos.testing.simulation.world.witness import Heard, heard_in, witness_errors
from opentalos.testing.simulation.world.world import World

_log = logging.getLogger("opentalos.somewhere")


async def survive(error: Exception) -> None:
    """What the root of a task does."""
    try:
        raise error
    except Exception:
        _log.exception("it continues")


@pytest.mark.parametrize(
    ("error", "names"), [(KeyError("s1"), ["unhandled-error"]), (StoreUnavailable("away"), [])]
)
def test_only_an_unexpected_failure_is_an_anomaly(error: Exception, names: list[str]) -> None:
    async def scenario(world: World) -> None:
        await world.loop.process("s1").create_task(survive(error))

    found = check(World(seed=1).run(scenario))
    assert [anomaly.name for anomaly in found] == names
    assert not found or "s1: it continues: KeyError('s1')" in str(found[0])


def test_nothing_is_logged_meanwhile_and_everything_after(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with witness_errors() as witness:
        _log.error("a fault is expected")
        _log.error("so is %s", "this", exc_info=StoreUnavailable("away"))
        _log.error("this is not", exc_info=ValueError("1"))
    assert witness.failures == ["world: this is not: ValueError('1')"]
    assert not caplog.records
    _log.error("heard again")
    assert [record.getMessage() for record in caplog.records] == ["heard again"]


@pytest.mark.parametrize(
    ("line", "heard"),
    [
        (
            "log-tail-cut: topic u partition 2: a crash left 9 bytes of the last group",
            Heard("tail-cut", "u", 2),
        ),
        (
            "log-truncated: topic u partition 0: flushed messages from offset 7 to 9 were lost",
            Heard("truncated", "u", 0, offset=7),
        ),
        ("log-tail-cut: journal s1-3: torn", Heard("tail-cut", journal="s1-3")),
        (
            "log-set-aside: u/1/00000000000000000004-2.log: nothing proves",
            Heard("set-aside", "u", 1, path="u/1/00000000000000000004-2.log"),
        ),
        ("log-closed: topic u partition 2: idle", None),
    ],
)
def test_what_a_log_continues_without_is_heard(line: str, heard: Heard | None) -> None:
    assert heard_in(line) == heard
