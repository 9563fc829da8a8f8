"""MessageService, ConsumerService and MetricService through their handlers."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.broker.support import ADDRESS, world
from tests.unit.gateway.thrift_http.handlers.support import (
    ADMIN,
    BOB,
    Client,
    partition_of,
)

from opentalos.gateway.thrift_http.errors import NotTransactional
from opentalos.gateway.thrift_http.handlers.context import CallContext
from opentalos.group.members import mark_of
from opentalos.model.errors import (
    BadRequest,
    NotSupported,
    OffsetOutOfRange,
    PermissionDenied,
    SequenceGap,
    UnexpectedOffset,
)
from opentalos.wire._generated import consumer, message, metric, topic
from opentalos.wire._generated.common import ErrorCode
from opentalos.wire.message import Message, encode_block

MESSAGE, CONSUMER, METRIC = "MessageService", "ConsumerService", "MetricService"


def put_request(
    info: topic.TopicInfo, *texts: bytes, total: int | None = None, **fields: Any
) -> message.PutMessageRequest:
    """One V3 block of messages."""
    messages = [Message(text, partition_key="k", create_ms=5) for text in texts]
    block = message.MessageBlock(
        startMessageOffset=0,
        messageNumber=fields.pop("count", len(messages)),
        compressionType=fields.pop("compression", message.MessageCompressionType.SNAPPY),
        messageBlock=encode_block(messages),
        **fields,
    )
    return message.PutMessageRequest(
        topicAndPartition=partition_of(info),
        messageBlocks=[block],
        messageNumber=block.messageNumber if total is None else total,
        sequenceId="p#1",
    )


def get_request(info: topic.TopicInfo, offset: int, **fields: Any) -> message.GetMessageRequest:
    return message.GetMessageRequest(
        topicAndPartition=partition_of(info), messageOffset=offset, sequenceId="g#1", **fields
    )


async def test_what_was_put_is_got_with_offsets_and_every_field() -> None:
    async with world() as made:
        alice = Client(made)
        info = await alice.create()
        request = put_request(
            info, b"a", b"b", createTimestamp=5, createTimestampList=[5, 6], tag="x", tagCode=-3
        )
        assert (await alice(MESSAGE, "putMessage", request)).sequenceId == "p#1"
        await alice(MESSAGE, "putMessage", put_request(info, b"c"))
        got: message.GetMessageResponse = await alice(MESSAGE, "getMessage", get_request(info, 1))
        assert (got.messageNumber, got.unHandledMessageNumber, got.sequenceId) == (3, 0, "g#1")
        first, second = got.messageBlocks
        sent = request.messageBlocks[0]
        assert (first.startMessageOffset, second.startMessageOffset) == (0, 2)
        assert first.messageBlock == sent.messageBlock
        assert first.messageBlockSize == len(sent.messageBlock)
        assert (first.createTimestamp, first.createTimestampList) == (5, [5, 6])
        assert (first.tag, first.tagCode, first.compressionType) == ("x", -3, 1)
        assert first.appendTimestamp
        assert second.createTimestamp is None
        empty = await alice(MESSAGE, "getMessage", get_request(info, 0, maxGetMessageNumber=1))
        assert (empty.messageNumber, empty.unHandledMessageNumber) == (2, 1)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"count": 0}, BadRequest),
        ({"count": -5}, BadRequest),
        ({"total": 7}, BadRequest),
        ({"compression": 5}, BadRequest),
        ({"createTimestamp": -1}, BadRequest),
        ({"transactionId": 3}, NotTransactional),
    ],
)
async def test_a_wrong_block_is_refused(fields: dict[str, Any], error: type[Exception]) -> None:
    async with world() as made:
        alice = Client(made)
        info = await alice.create()
        with pytest.raises(error):
            await alice(MESSAGE, "putMessage", put_request(info, b"a", **fields))


async def test_a_put_of_an_idempotent_producer_is_stored_once() -> None:
    async with world() as made:
        alice = Client(made)
        info = await alice.create()
        await alice(MESSAGE, "putMessage", put_request(info, b"before"))
        request = put_request(info, b"a", b"b")
        request.messageBlocks *= 2
        request.messageNumber = 4
        request.producerId, request.producerEpoch, request.firstSequence = 7, 0, 0
        for repeated in (None, True):
            request.repeated = repeated
            reply = await alice(MESSAGE, "putMessage", request)
            assert (reply.baseOffset, reply.storedBefore) == (1, repeated)
        got = await alice(MESSAGE, "getMessage", get_request(info, 0))
        assert got.messageNumber == 5
        request.firstSequence = 5
        with pytest.raises(SequenceGap):
            await alice(MESSAGE, "putMessage", request)
        request.firstSequence, request.producerEpoch = 4, None
        with pytest.raises(BadRequest, match="needs producerId, producerEpoch and firstSequence"):
            await alice(MESSAGE, "putMessage", request)
        request.producerEpoch = -1
        with pytest.raises(BadRequest, match="out of range"):
            await alice(MESSAGE, "putMessage", request)


async def test_reading_outside_the_log_is_out_of_range() -> None:
    async with world() as made:
        alice = Client(made)
        info = await alice.create()
        await alice(MESSAGE, "putMessage", put_request(info, b"a"))
        with pytest.raises(OffsetOutOfRange):
            await alice(MESSAGE, "getMessage", get_request(info, 99))
        with pytest.raises(NotSupported, match="tag filters are not supported yet"):
            await alice(MESSAGE, "getMessage", get_request(info, 0, messageTags={"x"}))


async def test_offset_calls_put_errors_inside_their_reply() -> None:
    async with world() as made:
        alice = Client(made)
        info = await alice.create(partitions=2)
        await alice(MESSAGE, "putMessage", put_request(info, b"a", b"b"))
        name = message.GetTopicOffsetRequest(topicTalosResourceName=info.topicTalosResourceName)
        infos = (await alice(MESSAGE, "getTopicOffset", name)).offsetInfoList
        assert [(i.partitionId, i.startOffset, i.endOffset) for i in infos] == [
            (0, 0, 1),
            (1, 0, -1),
        ]
        request = message.GetPartitionOffsetRequest(topicAndPartition=partition_of(info, 5))
        wrong = (await alice(MESSAGE, "getPartitionOffset", request)).offsetInfo
        assert (wrong.partitionId, wrong.errorCode) == (5, ErrorCode.PARTITION_NOT_EXIST)
        assert wrong.errorMsg
        listed = message.GetPartitionsOffsetRequest(
            topicAndPartitionList=[partition_of(info), partition_of(info, 9)]
        )
        good, bad = (await alice(MESSAGE, "getPartitionsOffset", listed)).offsetInfoList
        assert (good.endOffset, good.errorCode) == (1, None)
        assert (bad.partitionId, bad.errorCode) == (9, ErrorCode.PARTITION_NOT_EXIST)
        (hidden, _) = (
            await Client(made, BOB)(MESSAGE, "getPartitionsOffset", listed)
        ).offsetInfoList
        assert hidden.errorCode == ErrorCode.TOPIC_NOT_EXIST


async def test_times_become_offsets() -> None:
    async with world() as made:
        alice = Client(made)
        info = await alice.create(partitions=2)
        await alice(MESSAGE, "putMessage", put_request(info, b"a", b"b"))
        request = message.GetCheckpointRequest(
            topicTalosResourceName=info.topicTalosResourceName,
            partitionTimeIndexMap={0: 0, 1: 1 << 50},
        )
        found = (await alice(MESSAGE, "getTopicCheckpoint", request)).partitionsCheckPoint
        assert found == {0: 0, 1: 0}
        late = message.GetPartitionCheckpointRequest(
            topicAndPartition=partition_of(info), partitionTimeIndex=1 << 50
        )
        assert (await alice(MESSAGE, "getPartitionCheckpoint", late)).partitionCheckPoint == 2


async def test_the_schedule_names_every_partition() -> None:
    async with world() as made:
        alice = Client(made)
        info = await alice.create(partitions=3)
        name = message.GetScheduleInfoRequest(topicTalosResourceName=info.topicTalosResourceName)
        found = (await alice(MESSAGE, "getScheduleInfo", name)).scheduleInfo
        assert found == {partition_of(info, number): ADDRESS for number in range(3)}


@pytest.mark.parametrize("service", [MESSAGE, METRIC])
async def test_a_preview_shows_decoded_rows(service: str) -> None:
    async with world() as made:
        alice = Client(made)
        info = await alice.create()
        await alice(MESSAGE, "putMessage", put_request(info, "grüße".encode(), b"\xff\x00"))
        request = message.GetDataPreviewRequest(topicAndPartition=partition_of(info))
        found: message.GetDataPreviewResponse = await alice(service, "getDataPreview", request)
        assert found.messageNumber == 2
        first, second = found.messageLists
        assert set(first) <= set(found.schemaTitleList)
        assert (first["offset"], first["message"], first["partitionKey"]) == ("0", "grüße", "k")
        assert second["message"] == "ff00"


async def test_transactions_are_not_supported_yet() -> None:
    async with world() as made:
        alice = Client(made)
        info = await alice.create()
        block = message.MessageBlock(startMessageOffset=0, messageNumber=1, messageBlock=b"x")
        target = partition_of(info)
        calls = {
            "prepare": message.PrepareRequest(
                topicAndPartition=target, messageBlock=block, messageNumber=1, sequenceId=""
            ),
            "commit": message.CommitRequest(
                topicAndPartition=target, transactionId=1, sequenceId=""
            ),
            "rollback": message.RollbackRequest(
                topicAndPartition=target, transactionId=1, sequenceId=""
            ),
            "getUnkownStateTransaction": message.GetUnkownStateTransactionRequest(
                topicAndPartition=target
            ),
        }
        for rpc, request in calls.items():
            with pytest.raises(NotTransactional, match="not supported yet"):
                await alice(MESSAGE, rpc, request)


async def test_only_an_administrator_deletes_index_entries() -> None:
    async with world() as made:
        alice, admin = Client(made), Client(made, ADMIN)
        info = await alice.create()
        request = message.DeleteMessageIndexRequest(
            topicAndPartition=partition_of(info), startOffset=0, endOffset=5
        )
        with pytest.raises(PermissionDenied):
            await alice(MESSAGE, "deleteMessageIndex", request)
        await admin(MESSAGE, "deleteMessageIndex", request)
        request.startOffset = 6
        with pytest.raises(UnexpectedOffset):
            await admin(MESSAGE, "deleteMessageIndex", request)


def unit(info: topic.TopicInfo, worker: str, *partitions: int) -> consumer.ConsumeUnit:
    return consumer.ConsumeUnit(
        consumerGroup="g",
        topicTalosResourceName=info.topicTalosResourceName,
        partitionIdList=list(partitions),
        workerId=worker,
    )


async def test_a_worker_locks_renews_commits_and_leaves() -> None:
    async with world() as made:
        alice = Client(made)
        info = await alice.create(partitions=2)
        name = info.topicTalosResourceName
        register = consumer.CheckRegisterRequest(consumeUnit=unit(info, "w1"))
        assert (await alice(CONSUMER, "checkRegister", register)).canRegister
        for worker in ("w1", "w2"):
            lock = consumer.LockWorkerRequest(consumeUnit=unit(info, worker))
            assert (await alice(CONSUMER, "lockWorker", lock)).registerSuccess
        take = consumer.LockPartitionRequest(consumeUnit=unit(info, "w1", 0, 7))
        taken = await alice(CONSUMER, "lockPartition", take)
        assert (taken.successPartitions, taken.failedPartitions) == ([0], [7])
        query = consumer.QueryWorkerRequest(consumerGroup="g", topicTalosResourceName=name)
        assert (await alice(CONSUMER, "queryWorker", query)).workerMap == {"w1": [0], "w2": []}
        holder = consumer.GetWorkerIdRequest(
            topicAndPartition=partition_of(info), consumerGroup="g"
        )
        assert (await alice(CONSUMER, "getWorkerId", holder)).workerId == "w1"
        other = consumer.RenewRequest(consumeUnit=unit(info, "w2", 0))
        renewed = await alice(CONSUMER, "renew", other)
        assert (renewed.heartbeatSuccess, renewed.failedPartitionList) == (True, [0])
        offset = consumer.QueryOffsetRequest(
            consumerGroup="g", topicAndPartition=partition_of(info)
        )
        assert (await alice(CONSUMER, "queryOffset", offset)).msgOffset == -1
        await alice(MESSAGE, "putMessage", put_request(info, b"a", b"b"))
        point = consumer.CheckPoint(
            consumerGroup="g", topicAndPartition=partition_of(info), msgOffset=1, workerId="w1"
        )
        commit = consumer.UpdateOffsetRequest(checkpoint=point)
        assert (await alice(CONSUMER, "updateOffset", commit)).success
        point.lastCommitOffset = 0
        assert not (await alice(CONSUMER, "updateOffset", commit)).success
        assert (await alice(CONSUMER, "queryOffset", offset)).msgOffset == 1
        await alice(
            CONSUMER, "unlockPartition",
            consumer.UnlockPartitionRequest(consumeUnit=unit(info, "w1", 0)),
        )  # fmt: skip
        assert (await alice(CONSUMER, "getWorkerId", holder)).workerId == ""


async def test_metrics_show_the_progress_of_groups() -> None:
    async with world() as made:
        alice = Client(made)
        info = await alice.create(partitions=1)
        await alice(MESSAGE, "putMessage", put_request(info, b"a", b"b", b"c"))
        lock = consumer.LockWorkerRequest(consumeUnit=unit(info, "w1"))
        await alice(CONSUMER, "lockWorker", lock)
        take = consumer.LockPartitionRequest(consumeUnit=unit(info, "w1", 0))
        await alice(CONSUMER, "lockPartition", take)
        point = consumer.CheckPoint(
            consumerGroup="g", topicAndPartition=partition_of(info), msgOffset=0, workerId="w1"
        )
        await alice(CONSUMER, "updateOffset", consumer.UpdateOffsetRequest(checkpoint=point))
        name = info.topicTalosResourceName
        groups = await alice(
            METRIC,
            "queryConsumerGroup",
            metric.QueryConsumerGroupRequest(topicTalosResourceName=name),
        )
        assert groups.consumerGroupList == {"g"}
        request = metric.GetTopicConsumeUnitRequest(
            consumerGroupAndTopic=metric.ConsumerGroupAndTopic(
                consumerGroupName="g", topicTalosResourceName=name
            )
        )
        (found,) = (await alice(METRIC, "getTopicConsumeUnit", request)).partitionConsumeUnitList
        assert (found.ipAddr, found.consumerCommitOffset, found.consumerOffsetLag) == (
            "10.0.0.7",
            0,
            2,
        )
        every = metric.QueryTopicConsumeUnitRequest(topicTalosResourceName=name)
        units = (await alice(METRIC, "queryTopicConsumeUnit", every)).topicConsumeUnitMap
        assert units == {"g": [found]}


async def test_a_worker_that_leaves_is_seen_by_those_that_wait() -> None:
    async with world() as made:
        alice = Client(made)
        info = await alice.create(partitions=2)
        for worker, partition in (("w1", 0), ("w2", 1)):
            take = consumer.LockPartitionRequest(consumeUnit=unit(info, worker, partition))
            await alice(CONSUMER, "lockPartition", take)
        plain = consumer.QueryWorkerRequest(
            consumerGroup="g", topicTalosResourceName=info.topicTalosResourceName
        )
        assert (await alice(CONSUMER, "queryWorker", plain)).mark is None
        look = replace(plain, waitMillis=3_000)
        found = await alice(CONSUMER, "queryWorker", look)
        assert found.workerMap == {"w1": [0], "w2": [1]}
        waiting = asyncio.create_task(
            alice(CONSUMER, "queryWorker", replace(look, knownMark=found.mark))
        )
        await asyncio.sleep(0.05)
        assert not waiting.done()
        # It names none of its partitions.
        leave = consumer.UnlockPartitionRequest(consumeUnit=unit(info, "w1"), leaveGroup=True)
        await alice(CONSUMER, "unlockPartition", leave)
        assert (await waiting).workerMap == {"w2": [1]}


async def test_a_forwarded_call_does_not_wait() -> None:
    async with world() as made:
        alice = Client(made, context=CallContext(peer="10.0.0.7", transferred=True))
        info = await alice.create()
        lock = consumer.LockWorkerRequest(consumeUnit=unit(info, "w1"))
        await alice(CONSUMER, "lockWorker", lock)
        look = consumer.QueryWorkerRequest(
            consumerGroup="g",
            topicTalosResourceName=info.topicTalosResourceName,
            waitMillis=3_000,
            knownMark=mark_of({"w1": []}),
        )
        async with asyncio.timeout(2.0):
            assert (await alice(CONSUMER, "queryWorker", look)).mark == look.knownMark


async def test_one_worker_consumes_several_topics() -> None:
    async with world() as made:
        alice = Client(made)
        first, second = await alice.create("a", 1), await alice.create("b", 1)
        names = [info.topicTalosResourceName for info in (first, second)]
        lock = consumer.TopicsLockWorkerRequest(
            consumerGroup="g", topics=names, workerId="w", topicGroup=""
        )
        assert (await alice(CONSUMER, "lockWorkerForTopics", lock)).registerSuccess
        take = consumer.LockPartitionRequest(consumeUnit=unit(first, "w", 0))
        await alice(CONSUMER, "lockPartition", take)
        query = consumer.TopicsQueryWorkerRequest(
            consumerGroup="g", topicTalosResourceNames=names, topicGroup=""
        )
        found = (await alice(CONSUMER, "queryWorkerForTopics", query)).workerMap
        assert found == {"w": [partition_of(first)]}
        steal = consumer.LockPartitionRequest(consumeUnit=unit(second, "v", 0))
        await alice(CONSUMER, "lockPartition", steal)
        held = consumer.TopicsConsumeUnit(
            consumerGroup="g",
            topicPartitions={name.topicTalosResourceName: [0] for name in names},
            workerId="w",
            topicGroup="",
        )
        renew = consumer.TopicsRenewRequest(consumeUnit=held)
        renewed = await alice(CONSUMER, "renewForTopics", renew)
        assert renewed.heartbeatSuccess
        assert renewed.failedPartitionList == [partition_of(second)]


async def test_an_organisations_checkpoints_are_found_and_groups_deleted() -> None:
    async with world() as made:
        admin = Client(made, ADMIN)
        request = consumer.QueryOrgOffsetRequest(consumerGroupPrefix="g", orgId="CL1")
        found = await admin(CONSUMER, "queryOrgOffset", request)
        assert found.consumerGroupOffsetMap == {}
        alice = Client(made)
        info = await alice.create()
        lock = consumer.LockPartitionRequest(consumeUnit=unit(info, "w", 0))
        await alice(CONSUMER, "lockPartition", lock)
        await alice(
            CONSUMER, "unlockPartition",
            consumer.UnlockPartitionRequest(consumeUnit=unit(info, "w", 0)),
        )  # fmt: skip
        made.time.advance(3600)
        await alice(
            CONSUMER, "deleteConsumerGroup",
            consumer.DeleteConsumerGroupRequest(
                consumerGroup="g", topicTalosResourceName=info.topicTalosResourceName
            ),
        )  # fmt: skip
