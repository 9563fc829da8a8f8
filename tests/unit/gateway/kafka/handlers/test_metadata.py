"""Metadata: how topics may be named in which version."""

import pytest
from tests.unit.broker.support import world
from tests.unit.catalog.support import ALICE
from tests.unit.gateway.kafka.handlers.admin.support import Client

from opentalos.wire.kafka._generated.metadata_request import MetadataRequest, MetadataRequestTopic
from opentalos.wire.kafka.apis import ApiKey
from opentalos.wire.kafka.errors import ErrorCode


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize(("name", "by_id"), [(None, False), (None, True), ("t", True)])
async def test_before_version_12_topics_have_names_only(
    version: int, name: str | None, by_id: bool
) -> None:
    async with world() as w:
        topic = await w.topic(ALICE)
        topic_id = bytes.fromhex(topic.uuid) if by_id else bytes(16)
        asked = [
            MetadataRequestTopic(name="t"),
            MetadataRequestTopic(name=name, topic_id=topic_id),
        ]
        answer = await Client(w, ALICE).ask(ApiKey.METADATA, MetadataRequest(topics=asked), version)
        assert [(each.name, each.topic_id, each.error_code) for each in answer.topics] == [
            ("t", bytes(16), int(ErrorCode.INVALID_REQUEST)),
            (name or "", topic_id, int(ErrorCode.INVALID_REQUEST)),
        ]
        assert answer.brokers == []
