"""ConsumerService: leases and checkpoints. Source: docs/protocol/consumers.md#server-behaviour."""

from typing import Final

from opentalos.broker.broker import Broker
from opentalos.broker.values import CheckpointKey, Commit, ConsumeUnit
from opentalos.gateway.thrift_http.handlers import values
from opentalos.gateway.thrift_http.handlers.context import CallContext, Handler
from opentalos.model.identity import Principal
from opentalos.wire._generated import consumer, topic


def _unit_of(value: consumer.ConsumeUnit) -> ConsumeUnit:
    resource = values.resource_of(value.topicTalosResourceName)
    return ConsumeUnit(value.consumerGroup, resource, value.workerId, tuple(value.partitionIdList))


def _place(pair: tuple[str, int]) -> topic.TopicAndPartition:
    return values.topic_and_partition(*pair)


def _group_and_partition(key: CheckpointKey) -> consumer.ConsumerGroupAndPartition:
    return consumer.ConsumerGroupAndPartition(
        consumerGroupName=key.group,
        topicTalosResourceName=values.resource_name(key.resource),
        partitionId=key.partition,
    )


async def lock_partition(
    broker: Broker, caller: Principal, request: consumer.LockPartitionRequest, context: CallContext
) -> consumer.LockPartitionResponse:
    """Take free partitions."""
    unit = _unit_of(request.consumeUnit)
    outcome = await broker.consumers.lock_partitions(caller, unit, context.peer)
    return consumer.LockPartitionResponse(
        successPartitions=list(outcome.locked), failedPartitions=list(outcome.failed)
    )


async def unlock_partition(
    broker: Broker, caller: Principal, request: consumer.UnlockPartitionRequest, _: CallContext
) -> None:
    """Drop the worker's leases on partitions; all of them if it leaves the group."""
    unit = _unit_of(request.consumeUnit)
    if request.leaveGroup:
        await broker.group_membership.leave(caller, unit)
    else:
        await broker.consumers.unlock_partitions(caller, unit)


async def lock_worker(
    broker: Broker, caller: Principal, request: consumer.LockWorkerRequest, context: CallContext
) -> consumer.LockWorkerResponse:
    """Register a worker."""
    unit = _unit_of(request.consumeUnit)
    done = await broker.consumers.lock_worker(caller, unit, context.peer)
    return consumer.LockWorkerResponse(registerSuccess=done)


async def lock_worker_for_topics(
    broker: Broker,
    caller: Principal,
    request: consumer.TopicsLockWorkerRequest,
    context: CallContext,
) -> consumer.TopicsLockWorkerResponse:
    """Register a worker on several topics."""
    resources = await broker.work.each(caller.id, request.topics, values.resource_of)
    done = await broker.topic_consumers.lock_worker(
        caller, request.consumerGroup, resources, request.workerId, context.peer
    )
    return consumer.TopicsLockWorkerResponse(registerSuccess=done)


async def check_register(
    broker: Broker, caller: Principal, request: consumer.CheckRegisterRequest, _: CallContext
) -> consumer.CheckRegisterResponse:
    """Whether a worker may join."""
    can = await broker.consumers.check_register(caller, _unit_of(request.consumeUnit))
    return consumer.CheckRegisterResponse(canRegister=can)


async def renew(
    broker: Broker, caller: Principal, request: consumer.RenewRequest, context: CallContext
) -> consumer.RenewResponse:
    """Refresh a worker and its partitions."""
    unit = _unit_of(request.consumeUnit)
    alive, failed = await broker.consumers.renew(caller, unit, context.peer)
    return consumer.RenewResponse(heartbeatSuccess=alive, failedPartitionList=list(failed))


async def renew_for_topics(
    broker: Broker, caller: Principal, request: consumer.TopicsRenewRequest, context: CallContext
) -> consumer.TopicsRenewResponse:
    """Refresh a worker and its partitions of several topics."""
    unit = request.consumeUnit
    alive, failed = await broker.topic_consumers.renew(
        caller, unit.consumerGroup, unit.topicPartitions, unit.workerId, context.peer
    )
    lost = await broker.work.each(caller.id, failed, _place)
    return consumer.TopicsRenewResponse(heartbeatSuccess=alive, failedPartitionList=lost)


async def update_offset(
    broker: Broker, caller: Principal, request: consumer.UpdateOffsetRequest, _: CallContext
) -> consumer.UpdateOffsetResponse:
    """Commit a checkpoint."""
    sent = request.checkpoint
    resource, partition = values.target_of(sent.topicAndPartition)
    commit = Commit(
        group=sent.consumerGroup,
        resource=resource,
        partition=partition,
        worker=sent.workerId,
        offset=sent.msgOffset,
        last_offset=sent.lastCommitOffset,
    )
    done = await broker.consumers.update_offset(caller, commit)
    return consumer.UpdateOffsetResponse(success=done)


async def query_offset(
    broker: Broker, caller: Principal, request: consumer.QueryOffsetRequest, _: CallContext
) -> consumer.QueryOffsetResponse:
    """Last committed offset; -1 if none."""
    resource, partition = values.target_of(request.topicAndPartition)
    group = request.consumerGroup
    offset = await broker.consumers.query_offset(caller, group, resource, partition)
    return consumer.QueryOffsetResponse(msgOffset=offset)


async def query_worker(
    broker: Broker, caller: Principal, request: consumer.QueryWorkerRequest, context: CallContext
) -> consumer.QueryWorkerResponse:
    """Live workers with their partitions; a client that says so waits for a change.

    A forwarded call never waits: it would occupy one of the few connections between two servers.
    """
    resource = values.resource_of(request.topicTalosResourceName)
    if request.waitMillis is None:
        workers = await broker.consumers.query_workers(caller, request.consumerGroup, resource)
        mark = None
    else:
        workers, mark = await broker.group_membership.changed_workers(
            caller,
            request.consumerGroup,
            resource,
            known=request.knownMark,
            wait_s=0.0 if context.transferred else request.waitMillis / 1000,
        )
    return consumer.QueryWorkerResponse(
        workerMap={worker: list(held) for worker, held in workers.items()}, mark=mark
    )


async def query_worker_for_topics(
    broker: Broker, caller: Principal, request: consumer.TopicsQueryWorkerRequest, _: CallContext
) -> consumer.TopicsQueryWorkerResponse:
    """Live workers with their partitions of several topics."""
    names = request.topicTalosResourceNames
    resources = await broker.work.each(caller.id, names, values.resource_of)
    workers = await broker.topic_consumers.query_workers(caller, request.consumerGroup, resources)
    places: dict[str, list[topic.TopicAndPartition]] = {}
    for worker, held in workers.items():
        places[worker] = await broker.work.each(caller.id, held, _place)
        await broker.work.pause()
    return consumer.TopicsQueryWorkerResponse(workerMap=places)


async def query_org_offset(
    broker: Broker, caller: Principal, request: consumer.QueryOrgOffsetRequest, _: CallContext
) -> consumer.QueryOrgOffsetResponse:
    """Checkpoints of an organisation's groups."""
    prefix, organisation = request.consumerGroupPrefix, request.orgId
    found = await broker.consumers.org_offsets(caller, prefix, organisation)
    keys = await broker.work.each(caller.id, list(found), _group_and_partition)
    offsets = dict(zip(keys, found.values(), strict=True))
    return consumer.QueryOrgOffsetResponse(consumerGroupOffsetMap=offsets)


async def get_worker_id(
    broker: Broker, caller: Principal, request: consumer.GetWorkerIdRequest, _: CallContext
) -> consumer.GetWorkerIdResponse:
    """Worker that holds a partition."""
    resource, partition = values.target_of(request.topicAndPartition)
    group = request.consumerGroup
    worker = await broker.consumers.worker_id(caller, group, resource, partition)
    return consumer.GetWorkerIdResponse(workerId=worker)


async def delete_consumer_group(
    broker: Broker, caller: Principal, request: consumer.DeleteConsumerGroupRequest, _: CallContext
) -> None:
    """Forget a group."""
    resource = values.resource_of(request.topicTalosResourceName)
    await broker.consumers.delete_group(caller, request.consumerGroup, resource)


HANDLERS: Final[dict[str, Handler]] = {
    "lockPartition": lock_partition,
    "lockWorker": lock_worker,
    "lockWorkerForTopics": lock_worker_for_topics,
    "checkRegister": check_register,
    "unlockPartition": unlock_partition,
    "renew": renew,
    "renewForTopics": renew_for_topics,
    "updateOffset": update_offset,
    "queryOffset": query_offset,
    "queryWorker": query_worker,
    "queryWorkerForTopics": query_worker_for_topics,
    "queryOrgOffset": query_org_offset,
    "getWorkerId": get_worker_id,
    "deleteConsumerGroup": delete_consumer_group,
}
