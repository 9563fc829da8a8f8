"""Audit events reach the topic, or wait on disk until they do."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.support import World, world
from tests.unit.catalog.support import ALICE, ROOT
from tests.waiting import eventually_async, limit_s

from opentalos.adapters.spool import outbox
from opentalos.model.errors import StoreUnavailable
from opentalos.model.settings.security import AuditSettings
from opentalos.server.config import Config, changed_keys, parse_config
from opentalos.server.measuring.auditing import FOLDER, Auditing


async def actions(w: World, count: int) -> list[str]:
    """The actions in the topic, once there are so many."""

    async def stored() -> list[str]:
        page = await w.broker.audit.read(ROOT, page=0, since_ms=0, events_max=100)
        found = [event.action for event in page.events]
        return found if len(found) >= count else []

    return await eventually_async(f"{count} events are in the topic", stored)


def auditing(w: World, folder: Path, **settings: Any) -> Auditing:
    return Auditing(AuditSettings(**settings), w.broker, folder)


@pytest.mark.real_time
async def test_the_start_with_its_configuration_and_changes_are_in_the_topic(
    tmp_path: Path,
) -> None:
    async with world() as w:
        made = auditing(w, tmp_path)
        await made.start("http.drain_s=3.0")
        await w.topic(ALICE)
        assert await actions(w, 2) == ["start the server", "create a topic"]
        page = await w.broker.audit.read(ROOT, page=0, since_ms=0, events_max=1)
        assert page.events[0].details["configuration"] == "http.drain_s=3.0"
        await made.stop()


@pytest.mark.real_time
async def test_what_the_topic_does_not_take_waits_on_disk_for_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world() as w:

        async def refuse(topic: str, messages: Sequence[bytes], *, key: str) -> None:
            raise StoreUnavailable("the disk hangs")

        monkeypatch.setattr(outbox, "_CLOSE_S", limit_s())  # a busy machine may take its time
        made = auditing(w, tmp_path)
        with monkeypatch.context() as patched:
            patched.setattr(w.broker.system_topics, "put", refuse)
            await made.start("")
            await w.topic(ALICE)
            await made.stop()
        assert made.lost == 0
        assert list((tmp_path / FOLDER).glob("*.spool"))
        again = auditing(w, tmp_path)
        await again.start("")
        expected = ["start the server", "create a topic", "start the server"]
        assert await actions(w, 3) == expected
        await again.stop()


@pytest.mark.real_time
async def test_without_audit_nothing_is_stored(tmp_path: Path) -> None:
    async with world() as w:
        made = auditing(w, tmp_path, enabled=False)
        await made.start("")
        await w.topic(ALICE)
        await made.stop()
        page = await w.broker.audit.read(ROOT, page=0, since_ms=0, events_max=1)
        assert page.events == ()
    assert not os.listdir(tmp_path)


def test_the_configuration_is_shown_without_secrets() -> None:
    assert changed_keys(Config()) == ""
    document = {"log": {"lanes": 3}, "zookeeper": {"auth": "digest:user:password"}}
    shown = changed_keys(parse_config(document, "talos.toml"))
    assert shown == "log.lanes=3 zookeeper.auth=..."
