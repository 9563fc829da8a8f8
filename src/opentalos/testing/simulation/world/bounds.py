"""Bounds: the log's fixed bounds made so small that a run reaches them within seconds."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from opentalos.model.errors import TalosError
from opentalos.model.message import PayloadFormat, ProducerStamp, StoredBefore

HIGH_SEQUENCE = (1 << 31) - 40  # a few blocks before sequences begin again
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
def small_bounds(bounds: Bounds | None, *, high_sequences: bool = False) -> Iterator[None]:
    """Apply the bounds while a simulation runs; there is one at a time in a process.

    Args: high_sequences: producers of Kafka may begin with HIGH_SEQUENCE.
    """
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
        with _high_sequences() if high_sequences else nullcontext():
            yield
    finally:
        for module, name, value in former:
            setattr(module, name, value)


@contextmanager
def _high_sequences() -> Iterator[None]:
    """The first block of a producer of Kafka may have HIGH_SEQUENCE instead of 0.

    Only that is other than in the product: all later blocks are judged by it, as after two billion
    messages.
    """
    table: Any = sys.modules[_LOG + "segment.producers"].ProducerTable
    real = table.check

    def check(
        self: Any,
        principal: int,
        stamp: ProducerStamp,
        messages: int,
        payload_format: int = PayloadFormat.TALOS,
    ) -> StoredBefore | TalosError | None:
        known = self.find(principal, stamp.producer_id)
        first = known is None or known.epoch < stamp.epoch
        if first and stamp.sequence == HIGH_SEQUENCE and payload_format == PayloadFormat.KAFKA:
            stamp = stamp._replace(sequence=0)
        found: StoredBefore | TalosError | None = real(
            self, principal, stamp, messages, payload_format
        )
        return found

    table.check = check
    try:
        yield
    finally:
        table.check = real
