"""Repair of a partition's manifest, for the command line."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from opentalos.catalog.topics.topics import TopicCatalog, all_by_uuid
from opentalos.log.maintenance.verify import LogVerifier
from opentalos.log.manifest.repair import ManifestRepair
from opentalos.model.errors import DAMAGE, ConfigError
from opentalos.model.message import PartitionKey
from opentalos.ports.file_store import FileStore
from opentalos.ports.meta_store import MetaStore


class Repaired(NamedTuple):
    """What the manifest says before and after."""

    name: str  # of the partition
    adopted: list[str]  # files that it did not name before
    segments: int
    start: int  # first offset
    end_before: int  # offset after the last message, as far as it was sealed
    end: int  # the same, now
    refusal: str = ""  # why it was not repaired
    left_out: Sequence[str] = ()  # files with messages that the log lacks; a copy is set aside
    lost: Sequence[str] = ()  # what says that there was more


async def repair_log(
    files: FileStore,
    meta: MetaStore,
    wanted: str,
    now_ms: int,
    *,
    accept_loss: bool,
    store: bool,
) -> list[Repaired]:
    """Rebuild the manifest of ``wanted``, a topic's uuid or OWNER/NAME and a partition.

    Empty: of every partition whose files prove that its manifest came back older; one that cannot
    be rebuilt stops no other. ``store``: write it. Raises: ConfigError: there is no such topic, or
    ``wanted`` cannot be rebuilt; CorruptLog; NewerFormat.
    """
    names = await _names(meta)
    repair = ManifestRepair(files, meta)
    keys = [_key_of(wanted, names)] if wanted else await _outdated(files, meta)
    done = []
    for key in keys:
        name = f"{names.get(key.topic_uuid, key.topic_uuid)}/{key.partition}"
        try:
            plan = await repair.plan(key, accept_loss=accept_loss)
        except (ConfigError, *DAMAGE) as error:
            if wanted:
                raise
            done.append(Repaired(name, [], 0, 0, 0, 0, str(error)))
            continue
        if not (wanted or plan.adopted):
            continue  # damage of another kind
        if store:
            await repair.make(key, plan, now_ms)
        before, after = plan.before.manifest, plan.after
        done.append(
            Repaired(
                *(name, plan.adopted, len(after.segments)),
                *(after.first, before.sealed_next, plan.end),
                left_out=plan.left_out,
                lost=plan.lost,
            )
        )
    return done


async def _outdated(files: FileStore, meta: MetaStore) -> list[PartitionKey]:
    """Partitions with damage; whether a repair helps, its plan says."""
    verifier = LogVerifier(files, meta)
    return [
        key
        for key in await verifier.partitions()
        if [found async for found in verifier.check(key, lambda: None) if found.problem]
    ]


async def _names(meta: MetaStore) -> Mapping[str, str]:
    """OWNER/NAME by uuid."""
    catalog = TopicCatalog(meta)
    try:
        await catalog.start()
        topics = await all_by_uuid(catalog)
    finally:
        await catalog.close()
    return {uuid: f"{topic.owner}/{topic.name}" for uuid, topic in topics.items()}


def _key_of(wanted: str, names: Mapping[str, str]) -> PartitionKey:
    topic, _, partition = wanted.rpartition("/")
    if not topic or not partition.isdecimal():
        raise ConfigError(f"{wanted}: need TOPIC/PARTITION, for example alice/orders/0")
    uuids = {name: uuid for uuid, name in names.items()}
    if "/" in topic and topic not in uuids:
        raise ConfigError(f"topic {topic} does not exist; talos log adopt takes its files back")
    return PartitionKey(uuids.get(topic, topic), int(partition))
