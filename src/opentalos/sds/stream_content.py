"""Which streams of a table get a change, and with which columns."""

from collections.abc import Sequence
from typing import NamedTuple

from opentalos.model.change import StreamView
from opentalos.model.table import TableSchema


class StreamContent(NamedTuple):
    """What a stream's messages contain. ``attributes``: beside the key; None: all."""

    topic: str
    view: StreamView
    attributes: frozenset[str] | None


def stream_contents(schema: TableSchema) -> Sequence[StreamContent]:
    """The enabled streams. Each gets every change, even if none of its columns changed."""
    return tuple(
        StreamContent(topic, spec.view, frozenset(spec.attributes) or None)
        for topic, spec in schema.streams.items()
        if spec.enabled
    )
