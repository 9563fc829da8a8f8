"""REST of usage: the messages of a partition by minute, counted from its log."""

from opentalos.gateway.rest.routing.call import Answer, Call
from opentalos.gateway.rest.routing.route import Route
from opentalos.gateway.rest.routing.schema import fields, integer, items, nullable, text
from opentalos.gateway.rest.topic.naming import topic_of
from opentalos.model.identity import Permission

MINUTES_MAX = 10_000  # of one page
READ_S = 20.0  # for a page that is read from storage
_MINUTE = fields(
    minute_ms=integer(about="Start of the minute of append time, Unix milliseconds."),
    records=integer(1),
    bytes=integer(about="Payload of the blocks, as stored."),
    first_offset=integer(),
    next_offset=integer(),
)
_USAGE = fields(
    topic=text(about="Unique id of the topic."),
    name=text(),
    tenant=text(about="Owner of the topic."),
    partitions=integer(
        about="Largest number that the topic ever had; 0 to partitions - 1 can be queried."
    ),
    partition=integer(),
    start_offset=integer(about="First retained offset."),
    next_offset=integer(about="Offset of the next message."),
    metered_offset=integer(
        -1, about="__usage has all messages below this offset; -1: the topic is not metered."
    ),
    metered_since=integer(
        about="First metered offset; above 0 if messages were dropped before metering began."
    ),
    total_bytes=integer(about="Bytes ever appended, including block headers of the log."),
    minutes=items(_MINUTE),
    next_page=nullable(
        integer(about="Continue at this offset, possibly within the last minute; null: the end.")
    ),
)


async def get_usage(call: Call) -> Answer:
    """Minutes of one partition."""
    call.exchange.extend(READ_S)
    topic = topic_of(call, Permission.ADMIN)
    found = await call.broker.usage.partition_usage(
        call.caller,
        topic.resource,
        call.query.get("partition", 0),
        offset=call.query.get("offset", 0),
        minutes_max=call.query.get("minutes_max", MINUTES_MAX),
    )
    minutes = [
        {
            "minute_ms": minute.minute_ms,
            "records": minute.records,
            "bytes": minute.bytes,
            "first_offset": minute.first_offset,
            "next_offset": minute.next_offset,
        }
        for minute in found.minutes
    ]
    return Answer(
        {
            "topic": found.topic.uuid,
            "name": found.topic.name,
            "tenant": found.topic.owner,
            "partitions": found.topic.partitions_ever,
            "partition": found.partition,
            "start_offset": found.start_offset,
            "next_offset": found.next_offset,
            "metered_offset": found.metered_offset,
            "metered_since": found.metered_since,
            "total_bytes": found.total_bytes,
            "minutes": minutes,
            "next_page": found.next_page,
        }
    )


ROUTES = (
    Route(
        method="GET", path="topics/{topic}/usage", handler=get_usage, tag="usage",
        summary="Show the messages and bytes stored in a partition by minute.",
        reply=_USAGE,
        query={
            "partition": integer(about="Default 0."),
            "offset": integer(about="First offset to count; dropped messages are left out."),
            "minutes_max": integer(1, MINUTES_MAX),
        },
        notes="For the topic's owner and administrators. For a minute that began before "
        "start_offset, only retained messages are counted.",
    ),
)  # fmt: skip
