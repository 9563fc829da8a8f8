"""Changes of manifests: unknown outcomes are resolved by reading, never guessed."""

import pytest
from tests.unit.log.faults import FailOnce, FaultyMeta, Steps

from opentalos.adapters.memory import MemoryMetaStore, MemoryStorage
from opentalos.log.manifest.manifest import Manifest, Segment
from opentalos.log.manifest.store import NOTHING, ManifestStore, manifest_path
from opentalos.model.errors import CorruptLog, OutcomeUnknown, PartitionNotServing
from opentalos.model.message import PartitionKey

KEY = PartitionKey("topic-uuid", 0)


def stores() -> tuple[ManifestStore, ManifestStore, Steps]:
    """Two servers' views of one coordination store; the first one's calls can fail."""
    storage, steps = MemoryStorage(), Steps()
    mine = ManifestStore(FaultyMeta(storage, steps), "mine")
    return mine, ManifestStore(MemoryMetaStore(storage), "other"), steps


async def test_only_the_current_version_can_be_changed() -> None:
    mine, other, _ = stores()
    versioned = await mine.change(KEY, NOTHING, Manifest(epoch=1))
    assert await other.load(KEY) == versioned
    newer = await other.change(KEY, versioned, Manifest(epoch=2))
    for outdated in (versioned, NOTHING):
        with pytest.raises(PartitionNotServing, match="another owner"):
            await mine.change(KEY, outdated, Manifest(epoch=3))
    assert await mine.load(KEY) == newer


async def test_a_lost_answer_is_found_out_by_reading() -> None:
    mine, other, steps = stores()
    steps.script = FailOnce("replace", OutcomeUnknown("no answer"), after=True)
    versioned = await mine.change(KEY, NOTHING, Manifest(epoch=1))
    assert await other.load(KEY) == versioned


async def test_an_unknown_change_that_another_owner_overtook_stays_unknown() -> None:
    mine, other, steps = stores()
    versioned = await mine.change(KEY, NOTHING, Manifest(epoch=1))
    await other.change(KEY, versioned, Manifest(epoch=2))
    steps.script = FailOnce("replace", OutcomeUnknown("no answer"))
    with pytest.raises(OutcomeUnknown):
        await mine.change(KEY, versioned, Manifest(epoch=2))


async def test_equal_changes_of_two_servers_are_distinguished() -> None:
    mine, other, _ = stores()
    first = await mine.change(KEY, NOTHING, Manifest(epoch=1, segments=(Segment(0, 1),)))
    second = await other.change(KEY, first, first.manifest)
    assert first.manifest != second.manifest


async def test_an_unreadable_record_is_named() -> None:
    mine, _, _ = stores()
    await mine.meta.create(manifest_path(KEY), b"{")
    with pytest.raises(CorruptLog, match="log/topic-uuid/0"):
        await mine.load(KEY)


async def test_removing_is_idempotent_but_never_blind() -> None:
    mine, other, _ = stores()
    versioned = await mine.change(KEY, NOTHING, Manifest(epoch=1))
    newer = await other.change(KEY, versioned, Manifest(epoch=2))
    with pytest.raises(PartitionNotServing):
        await mine.remove(KEY, versioned)
    await other.remove(KEY, newer)
    await other.remove(KEY, newer)
    await mine.remove(KEY, NOTHING)
    assert await mine.load(KEY) == NOTHING
