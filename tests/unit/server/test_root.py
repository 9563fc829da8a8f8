"""The first administrator's key."""

import logging
from typing import Any

import pytest

from opentalos.server.root import ensure_root


class Principals:
    """Notes the key of the administrator."""

    def __init__(self) -> None:
        self.keys: list[tuple[str, str]] = []

    async def ensure_root(self, key_id: str, secret: str) -> None:
        self.keys.append((key_id, secret))


@pytest.mark.parametrize(("secret", "warns"), [("x" * 19, True), ("x" * 20, False)])
async def test_a_short_root_secret_warns_and_is_taken(
    caplog: pytest.LogCaptureFixture, secret: str, warns: bool
) -> None:
    broker: Any = type("Broker", (), {"principals": Principals()})()
    directory: Any = None
    with caplog.at_level(logging.WARNING, "opentalos.server"):
        await ensure_root(broker, directory, ("AKROOT", secret), None)
    assert broker.principals.keys == [("AKROOT", secret)]
    assert bool(caplog.records) == warns
    assert secret not in caplog.text
