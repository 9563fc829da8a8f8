"""Fixtures of the log's tests."""

import pytest

from opentalos.log.partition import decisions


@pytest.fixture(autouse=True)
def short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts to re-open follow each other at once; the code is the same."""
    monkeypatch.setattr(decisions, "REOPEN_DELAY_FIRST_S", 0.000_1)
    monkeypatch.setattr(decisions, "PAUSE_FIRST_S", 0.0)
    monkeypatch.setattr(decisions, "REOPEN_DELAY_MAX_S", 0.001)
