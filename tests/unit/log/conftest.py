"""Fixtures of the log's tests."""

import pytest

from opentalos.log.partition import writer as partition_writer


@pytest.fixture(autouse=True)
def short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts to re-open follow each other at once; the code is the same."""
    monkeypatch.setattr(partition_writer, "REOPEN_DELAY_FIRST_S", 0.000_1)
    monkeypatch.setattr(partition_writer, "REOPEN_DELAY_MAX_S", 0.001)
