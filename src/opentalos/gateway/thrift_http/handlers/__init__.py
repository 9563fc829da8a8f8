"""Translation of every RPC of the five services: generated structs in, broker values out."""

from typing import Final

from opentalos.gateway.thrift_http.handlers import (
    consumers,
    messages,
    metrics,
    offsets,
    permissions,
    quotas,
    topic_groups,
    topics,
    versions,
)
from opentalos.gateway.thrift_http.handlers.context import CallContext, Handler

__all__ = ["HANDLERS", "CallContext", "Handler"]

HANDLERS: Final[dict[str, dict[str, Handler]]] = {
    "TopicService": {
        **versions.HANDLERS,
        **topics.HANDLERS,
        **permissions.HANDLERS,
        **topic_groups.HANDLERS,
    },
    "MessageService": {**versions.HANDLERS, **messages.HANDLERS, **offsets.HANDLERS},
    "ConsumerService": {**versions.HANDLERS, **consumers.HANDLERS},
    "QuotaService": {**versions.HANDLERS, **quotas.HANDLERS},
    "MetricService": {**versions.HANDLERS, **metrics.HANDLERS},
}
