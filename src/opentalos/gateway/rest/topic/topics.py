"""REST of topics and their offsets."""

from collections.abc import Mapping, Sequence
from typing import Any

from opentalos.broker.values import AttributeChange, NewTopic, Topic
from opentalos.gateway.rest.routing.call import Answer, Call
from opentalos.gateway.rest.routing.forms import NEW_TOPIC
from opentalos.gateway.rest.routing.route import Body, Route
from opentalos.gateway.rest.routing.schema import (
    fields,
    integer,
    items,
    nullable,
    one_of,
    table,
    text,
)
from opentalos.gateway.rest.topic.naming import topic_of
from opentalos.gateway.rest.topic.topic_page import AFTER, NEXT, page_of
from opentalos.model.errors import PartitionNotExist, TalosError
from opentalos.model.identity import Permission
from opentalos.model.limits import PARTITIONS_MAX
from opentalos.model.settings.partitioning import with_partitioner
from opentalos.model.settings.topic_attributes import check_settings

I32_MAX = (1 << 31) - 1
ATTRIBUTES_MAX = 256
LISTED_MAX = 10_000  # topics of one page
_NAMED_MAX = 256  # partitions that a query names
_KEY = text(chars_min=1, chars_max=256)
_VALUE = text(chars_max=4096)
_PARTITIONS = integer(
    1, PARTITIONS_MAX, about="The configuration may allow fewer ([topic] partitions_max)."
)
_RETENTION = integer(1, I32_MAX, about="Seconds that messages are retained.")
_NEW_ATTRIBUTES = {
    **table(_VALUE, _KEY, maximum=ATTRIBUTES_MAX),
    "description": "The partitioner is murmur2 unless given; keys written by official SDKs need "
    "official.",
}
_OWNER_NAME = text(chars_max=256, about="Responsible person or team; free text.")

TOPIC = {
    "name": text(),
    "owner": text(),
    "resource": text(about="Identifies the topic; a recreated topic has another one."),
    "partitions": integer(),
    "consumer_partitions": integer(about="Larger than partitions while a shrink drains."),
    "retention_s": integer(),
    "durability": one_of("synced", "flushed"),
    "partitioner": one_of("murmur2", "official", about="Which partition a key belongs to."),
    "attributes": table(text()),
    "created_ms": integer(),
    "owner_name": text(),
}
_STATE = fields(
    partition=integer(),
    start=integer(about="First retained offset."),
    next=integer(about="Offset of the next message."),
    messages=integer(about="Retained."),
    bytes=integer(about="Retained."),
    total_messages=integer(about="Ever stored."),
    total_bytes=integer(about="Ever stored."),
)
_DESCRIBED = fields(**TOPIC, states=items(_STATE), used_bytes=integer())
_OFFSETS = fields(
    partition=integer(),
    optional={
        "start": integer(about="First retained offset."),
        "end": integer(-1, about="Last offset; start - 1 if nothing is retained."),
        "next": integer(about="Offset of the next message."),
        "at": integer(about="First offset stored at time_ms or later, or next."),
        "error": text(about="Why the offsets, or all but start, are unavailable now."),
    },
)


async def list_topics(call: Call) -> Answer:
    """Topics of the caller, or all visible ones."""
    if call.query.get("scope") == "visible":
        found = await call.broker.overview.listed_topics(call.caller)
    else:
        found = call.broker.topics.list_topics(call.caller)
    page = page_of(found, call.query.get("after", ""), call.query.get("limit"))
    topics = await call.broker.work.each(call.caller.id, page.topics, shown)
    return Answer({"topics": topics, "next": page.next})


async def create_topic(call: Call) -> Answer:
    """A new topic."""
    sent: dict[str, Any] = call.document
    check_settings(sent.get("attributes", {}))
    new = NewTopic(
        name=sent["name"],
        partitions=sent["partitions"],
        retention_s=sent.get("retention_s"),
        attributes=with_partitioner(sent.get("attributes", {})),
        owner_name=sent.get("owner_name", ""),
    )
    return Answer(shown(await call.broker.topics.create_topic(call.caller, new)))


async def get_topic(call: Call) -> Answer:
    """Everything about a topic."""
    topic = topic_of(call, Permission.DESCRIBE_TOPIC)
    found = await call.broker.topics.describe_topic(call.caller, topic.resource, _part(call))
    states = [
        {
            "partition": state.partition,
            "start": state.start_offset,
            "next": state.end_offset + 1,
            "messages": state.messages,
            "bytes": state.bytes_count,
            "total_messages": state.total_messages,
            "total_bytes": state.total_bytes,
        }
        for state in found.partitions
    ]
    return Answer(shown(found.topic) | {"states": states, "used_bytes": found.quota.used_bytes})


async def change_topic(call: Call) -> Answer:
    """Other partitions, retention or attributes."""
    topic = topic_of(call, Permission.CHANGE_TOPIC)
    sent: dict[str, Any] = call.document
    attributes: Mapping[str, str | None] = sent.get("attributes", {})
    check_settings(name for name, value in attributes.items() if value is not None)
    change = AttributeChange(
        partitions=sent.get("partitions"),
        retention_s=sent.get("retention_s"),
        attributes={name: value for name, value in attributes.items() if value is not None},
        removed=tuple(name for name, value in attributes.items() if value is None),
    )
    changed = await call.broker.topics.change_attribute(call.caller, topic.resource, change)
    return Answer(shown(changed))


async def delete_topic(call: Call) -> Answer:
    """Delete the topic."""
    topic = topic_of(call, Permission.CHANGE_TOPIC)
    await call.broker.topics.delete_topic(call.caller, topic.resource)
    return Answer()


async def get_offsets(call: Call) -> Answer:
    """Offsets of each partition, or of those that are named."""
    topic = topic_of(call, Permission.GET_MESSAGE)
    messages, resource, count = call.broker.messages, topic.resource, topic.consumer_partitions
    wanted: Sequence[int] = call.query.get("partition") or range(count)[_part(call)]
    missing = [partition for partition in wanted if partition >= count]
    if missing:
        raise PartitionNotExist(f"topic {topic.name} has no partition {missing[0]}")
    found = await messages.facts_of(call.caller, resource, list(wanted))
    partitions: list[dict[str, Any]] = []
    for partition, fact in zip(wanted, found, strict=True):
        if isinstance(fact, TalosError):
            partitions.append({"partition": partition, "error": str(fact)})
            continue
        start, end = fact.offsets
        shown = {"partition": partition, "start": start}
        if fact.damage is not None:
            partitions.append(shown | {"error": str(fact.damage)})
        else:
            partitions.append(shown | {"end": end - 1, "next": end})
    if "time_ms" in call.query:
        known = [entry["partition"] for entry in partitions if "error" not in entry]
        times = dict.fromkeys(known, call.query["time_ms"])
        at = await messages.offsets_at(call.caller, resource, times)
        for entry in partitions:
            if entry["partition"] in at:
                entry["at"] = at[entry["partition"]]
    return Answer({"partitions": partitions})


def _part(call: Call) -> slice:
    """Which partitions the query asks for."""
    start = call.query.get("from_partition", 0)
    limit = call.query.get("limit", PARTITIONS_MAX)
    return slice(start, start + limit)


def shown(topic: Topic) -> dict[str, Any]:
    """A topic as JSON."""
    return {
        "name": topic.name,
        "owner": topic.owner,
        "resource": topic.resource,
        "partitions": topic.partitions,
        "consumer_partitions": topic.consumer_partitions,
        "retention_s": topic.retention_s,
        "durability": topic.durability.value,
        "partitioner": topic.partitioning.value,
        "attributes": dict(topic.attributes),
        "created_ms": topic.created_ms,
        "owner_name": topic.owner_name,
    }


_TAG = "topics"
_PART = {
    "from_partition": integer(0, PARTITIONS_MAX, about="Only partitions from this one on."),
    "limit": integer(0, PARTITIONS_MAX, about="So many of them; default all."),
}
ROUTES = (
    Route(
        method="GET", path="topics", handler=list_topics, tag=_TAG,
        summary="List topics by name.", reply=fields(topics=items(fields(**TOPIC)), next=NEXT),
        query={
            "scope": one_of(
                "owned", "visible", about="Own topics, or all that the caller may see."
            ),
            "after": AFTER,
            "limit": integer(1, LISTED_MAX, about="Without it all topics are listed."),
        },
    ),
    Route(
        method="POST", path="topics", handler=create_topic, tag=_TAG,
        summary="Create a topic.", status=201, reply=fields(**TOPIC), statuses=(409, 422),
        body=Body(
            fields(
                name=text(NEW_TOPIC, about="A plain name, or ORGANISATION/NAME."),
                partitions=_PARTITIONS,
                optional={
                    "retention_s": _RETENTION,
                    "attributes": _NEW_ATTRIBUTES,
                    "owner_name": _OWNER_NAME,
                },
            )
        ),
    ),
    Route(
        method="GET", path="topics/{topic}", handler=get_topic, tag=_TAG,
        summary="Describe a topic; partitions whose state is unavailable are left out.",
        query=_PART, reply=_DESCRIBED,
        notes="The state of 10,000 partitions takes the server some 100 ms: name a part of them, "
        "or send limit=0 if only the topic itself is of interest.",
    ),
    Route(
        method="PATCH", path="topics/{topic}", handler=change_topic, tag=_TAG,
        summary="Change partitions, retention or attributes; null removes an attribute.",
        reply=fields(**TOPIC), statuses=(409, 422),
        body=Body(
            fields(
                optional={
                    "partitions": _PARTITIONS,
                    "retention_s": _RETENTION,
                    "attributes": table(nullable(_VALUE), _KEY, maximum=ATTRIBUTES_MAX),
                }
            )
        ),
    ),
    Route(
        method="DELETE", path="topics/{topic}", handler=delete_topic, tag=_TAG, status=204,
        summary="Delete a topic with its messages.", statuses=(409,),
    ),
    Route(
        method="GET", path="topics/{topic}/offsets", handler=get_offsets, tag=_TAG,
        summary="Show the first, last and next offset of each partition.",
        query={
            "time_ms": integer(about="Also the offset of this time (Unix milliseconds)."),
            "partition": items(
                integer(0, PARTITIONS_MAX), minimum=1, maximum=_NAMED_MAX
            ),
            **_PART,
        },
        reply=fields(partitions=items(_OFFSETS)),
    ),
)  # fmt: skip
