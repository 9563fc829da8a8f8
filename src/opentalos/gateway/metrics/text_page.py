"""The text of /metrics, by Prometheus' client; page.py imports it at the first request."""

from collections.abc import Callable
from functools import partial

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import generate_latest

from opentalos.gateway.metrics.families import ServerCollector
from opentalos.gateway.metrics.sources import Sources
from opentalos.model.limits import MetricsSettings


def text_page_of(sources: Sources, settings: MetricsSettings) -> Callable[[], bytes]:
    """A function that reads all metrics and returns the page in the text format 0.0.4."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    PlatformCollector(registry=registry)
    registry.register(ServerCollector(sources, settings.topics_max, settings.groups_max))
    return partial(generate_latest, registry)
