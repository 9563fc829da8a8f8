"""The pipelines by name; each is imported when it is loaded."""

from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from typing import cast

from opentalos.model.errors import ConfigError
from opentalos.pipelines.pipeline import Pipeline
from opentalos.pipelines.session import MISSING

PIPELINES = {
    "archive": "opentalos.pipelines.archive.pipeline:ARCHIVE",
    "monitoring": "opentalos.pipelines.monitoring.pipeline:MONITORING",
    "metering": "opentalos.pipelines.metering.pipeline:METERING",
    "billing": "opentalos.pipelines.billing.pipeline:BILLING",
    "traffic-weights": "opentalos.pipelines.traffic.pipeline:TRAFFIC_WEIGHTS",
    "traffic-anomalies": "opentalos.pipelines.traffic.anomaly_pipeline:TRAFFIC_ANOMALIES",
    "quota-projection": "opentalos.pipelines.quota.pipeline:QUOTA_PROJECTION",
    "sds-replay": "opentalos.pipelines.tables.pipeline:SDS_REPLAY",
}

LAKE_TABLES = {  # that pipelines keep below --home, or below a lake
    "usage": "metering",
    "metrics": "monitoring",
    "side/metering": "metering",
    "side/monitoring": "monitoring",
}


def load(name: str) -> Pipeline:
    """The pipeline of that name. Raises: ConfigError: no such pipeline, or no PySpark."""
    if name not in PIPELINES:
        raise ConfigError(unknown("pipeline", name, PIPELINES))
    module, _, attribute = PIPELINES[name].partition(":")
    try:
        return cast(Pipeline, getattr(import_module(module), attribute))
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("opentalos"):
            raise
        raise ConfigError(MISSING) from error


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """The error text for an unknown name, with the nearest known one."""
    names = list(known)
    near = get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(names) or 'none'}"
    return f"no {what} {name!r}; {hint}"
