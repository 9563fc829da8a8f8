"""Bounds: the log's fixed bounds made so small that a run reaches them within seconds."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_LOG = "opentalos.log."  # modules that may have imported a bound by its name


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Bounds that are constants of the product, not settings."""

    segments_soft_max: int = 8  # of a manifest: above it segments are larger
    producers_max: int = 4  # that a partition remembers
    producers_of_principal_max: int = 4  # of them, of one principal

    def constants(self) -> dict[str, int]:
        """By the names of the constants."""
        return {
            "SEGMENTS_SOFT_MAX": self.segments_soft_max,
            "PRODUCERS_MAX": self.producers_max,
            "PRODUCERS_OF_PRINCIPAL_MAX": self.producers_of_principal_max,
        }


@contextmanager
def small_bounds(bounds: Bounds | None) -> Iterator[None]:
    """Apply the bounds while a simulation runs; there is one at a time in a process."""
    constants = {} if bounds is None else bounds.constants()
    modules = [module for name, module in sys.modules.items() if name.startswith(_LOG)]
    former = [
        (module, name, getattr(module, name))
        for module in modules
        for name in constants
        if hasattr(module, name)
    ]
    for module, name, _ in former:
        setattr(module, name, constants[name])
    try:
        yield
    finally:
        for module, name, value in former:
            setattr(module, name, value)
