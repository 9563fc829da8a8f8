"""REST of a table's streams: the topics that its changes are published to, and their progress."""

from dataclasses import replace
from typing import Any

from opentalos.broker.tables.api.values import Table, WhenFull
from opentalos.gateway.rest.routing.call import Answer, Call
from opentalos.gateway.rest.routing.errors import NoSuchStream
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
from opentalos.gateway.rest.table import format as table_format
from opentalos.gateway.rest.table.tables import alter, table_of
from opentalos.model.errors import TalosError
from opentalos.model.table import StreamSpec, TableSpec

_STREAM = {
    "topic": text(about="The topic's name when the stream was created."),
    "topic_owner": nullable(text()),
    "state": one_of("running", "gap", "disabled", about="gap: stopped; changes are missing."),
    **table_format.SHOWN_STREAM,
    "since_ms": nullable(integer(about="Changes from this time on are published.")),
    "gap_ms": nullable(integer(about="No change before this time is missing.")),
    "error": text(about="Why it stopped."),
}
_MARK = fields(
    timestamp_ms=integer(about="Every change up to this time is in the topic, below the offsets."),
    offsets={**table(integer()), "description": "The next offset of each partition at that time."},
)

_NO_MARK = {"gap": "the stream stopped; changes are missing", "disabled": "the stream is disabled"}


async def list_streams(call: Call) -> Answer:
    """Streams with their state."""
    found = await table_of(call)
    return Answer({"streams": [_shown(found, topic) for topic in found.schema.streams]})


async def get_stream(call: Call) -> Answer:
    """A stream and its mark."""
    found, topic = await table_of(call), call.places["topic"]
    shown = _shown(found, topic) | {"when_full": found.when_full.value, "mark": None, "no_mark": ""}
    if shown["state"] != "running":
        return Answer(shown | {"no_mark": _NO_MARK[shown["state"]]})
    try:
        mark = await call.broker.shards.mark(found, topic)
    except TalosError as error:
        return Answer(shown | {"no_mark": str(error)})
    offsets = {str(partition): offset for partition, offset in sorted(mark.offsets.items())}
    return Answer(shown | {"mark": {"timestamp_ms": mark.timestamp_ms, "offsets": offsets}})


async def put_stream(call: Call) -> Answer:
    """Set the stream. A stopped stream restarts: it is disabled in between."""
    found, topic, wanted = await table_of(call), _topic(call), table_format.stream_of(call.document)
    state = found.streams.get(topic)
    if wanted.enabled and state is not None and not state.live:
        await _with(call, replace(wanted, enabled=False))
    return Answer(_shown(await _with(call, wanted), topic))


async def delete_stream(call: Call) -> Answer:
    """Remove the stream."""
    found = await table_of(call)
    _shown(found, _topic(call))  # raises NoSuchStream
    await _with(call, None)
    return Answer()


async def _with(call: Call, stream: StreamSpec | None) -> Table:
    def change(now: Table) -> TableSpec:
        return replace(now.spec, schema=table_format.with_stream(now.schema, _topic(call), stream))

    return await alter(call, change)


def _topic(call: Call) -> str:
    return call.places["topic"]


def _shown(found: Table, topic: str) -> dict[str, Any]:
    spec, state = found.schema.streams.get(topic), found.streams.get(topic)
    if spec is None:
        raise NoSuchStream(f"table {found.name} has no stream to topic {topic}")
    if state is None or not spec.enabled:
        name = "disabled"
    else:
        name = "running" if state.live else "gap"
    return {
        "topic": topic,
        "topic_owner": state and state.topic_owner,
        "state": name,
        **table_format.shown_stream(spec),
        "since_ms": state and state.since_ms,
        "gap_ms": state and state.gap_ms,
        "error": state.error if state is not None else "",
    }


_TAG = "streams"
_PATH = "tables/{table}/streams"
ROUTES = (
    Route(
        method="GET", path=_PATH, handler=list_streams, tag=_TAG,
        summary="List the streams of a table with their state.",
        reply=fields(streams=items(fields(**_STREAM))),
    ),
    Route(
        method="GET", path=_PATH + "/{topic}", handler=get_stream, tag=_TAG,
        summary="Show a stream and its mark: the time up to which it is complete.",
        notes="If there is no mark, no_mark says why; a new mark may take a minute.",
        reply=fields(
            **_STREAM, when_full=one_of(*WhenFull), mark=nullable(_MARK), no_mark=text()
        ),
    ),
    Route(
        method="PUT", path=_PATH + "/{topic}", handler=put_stream, tag=_TAG,
        summary="Create, change, enable or disable the stream of a table to a topic.",
        notes=(
            "The topic must exist, and the table's owner must be allowed to put into it. Every "
            "change after the reply is published; a stream with a gap restarts."
        ),
        body=Body(table_format.STREAM, optional=True), reply=fields(**_STREAM),
        statuses=(409, 422),
    ),
    Route(
        method="DELETE", path=_PATH + "/{topic}", handler=delete_stream, tag=_TAG, status=204,
        summary="Remove a stream from a table; unpublished changes are dropped.",
        statuses=(409, 422),
    ),
)  # fmt: skip
