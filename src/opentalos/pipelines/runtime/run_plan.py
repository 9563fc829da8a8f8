"""The plan of a run, checked before Spark starts, and the events that the run reports."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from opentalos.model.errors import ConfigError, TalosError
from opentalos.pipelines.pipeline import Pipeline, PipelineSettings
from opentalos.pipelines.registry import load, unknown

LEASE_S = 60.0  # after which another host takes over from a run that cannot be reached
OUTAGE_S = 300.0  # how long a run waits for an unavailable server, at its start and later


class PipelineFailed(TalosError):
    """A pipeline failed; the text has its name and the cause. Its checkpoint is unchanged."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a run: ``text`` for people, ``fields`` for programs."""

    kind: str  # progress, note, restart, gave-up
    text: str
    fields: Mapping[str, Any] = field(default_factory=dict)


Say = Callable[[Event], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """Pipelines of one Spark session. ``every_s`` None: a batch pipeline runs once."""

    names: tuple[str, ...]
    settings: PipelineSettings  # without options of a pipeline
    options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    every_s: float | None = None
    outage_s: float = OUTAGE_S
    lease_s: float = LEASE_S
    master: str | None = None  # None: that of spark-submit, else local[*]
    conf: Mapping[str, str] = field(default_factory=dict)
    supervised: bool = False  # the run ends at the end of stdin, so it cannot outlive its parent

    def settings_of(self, name: str) -> PipelineSettings:
        """The settings of one pipeline, with its options."""
        return replace(self.settings, options=self.options.get(name, {}))

    def load(self) -> dict[str, Pipeline]:
        """The pipelines by name. Raises: ConfigError: a name or an option is unknown."""
        if not self.names:
            raise ConfigError("name at least one pipeline")
        loaded = {name: load(name) for name in self.names}
        for name, given in self.options.items():
            if name not in loaded:
                raise ConfigError(f"-o {name}: {unknown('such pipeline here', name, self.names)}")
            for option in given:
                if option not in loaded[name].options:
                    what = f"option of {name}"
                    raise ConfigError(unknown(what, option, list(loaded[name].options)))
        return loaded


def parse_options(given: Iterable[str]) -> dict[str, dict[str, str]]:
    """Options ``NAME.option=value`` by pipeline. Raises: ConfigError: a text has another form."""
    found: dict[str, dict[str, str]] = {}
    for text in given:
        target, equals, value = text.partition("=")
        name, dot, option = target.partition(".")
        if not (equals and dot and name and option):
            raise ConfigError(f"-o {text!r} is invalid: write NAME.option=value")
        if option in found.setdefault(name, {}):
            raise ConfigError(f"-o {target} is given twice")
        found[name][option] = value
    return found
