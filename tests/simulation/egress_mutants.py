"""Mutants of egress; see ``mutants`` for what a mutant proves."""

from dataclasses import replace
from typing import Any

import pytest
from tests.simulation.metering_mutants import METERED
from tests.simulation.mutants import Mutant, _names

from opentalos.broker import context
from opentalos.broker.quota.egress import EgressCounters, _Counter
from opentalos.broker.quota.metering import Metering
from opentalos.model.errors import OutcomeUnknown

EGRESS = replace(METERED, egress=True)


def carry_a_minute_over(patch: pytest.MonkeyPatch) -> None:
    """A counter goes on in the next minute with what was reported."""
    real = EgressCounters._finish

    def finish(self: EgressCounters, most: int, *, unfinished: bool) -> None:
        before = dict(self._counters)
        real(self, most, unfinished=unfinished)
        for key in before.keys() - self._counters.keys():
            carried = _Counter(before[key].topic)
            carried.messages, carried.bytes = before[key].messages, before[key].bytes
            self._counters.setdefault((key[0], key[1], self._minute()), carried)

    patch.setattr(EgressCounters, "_finish", finish)


def name_every_start_alike(patch: pytest.MonkeyPatch) -> None:
    def counters(clock: Any, config: Any) -> EgressCounters | None:
        metered = config.metering is not None and config.metering.egress
        return EgressCounters(clock, config.server, config.minute_ms) if metered else None

    patch.setattr(context, "_egress", counters)


def number_anew_after_an_unknown_put(patch: pytest.MonkeyPatch) -> None:
    real, put_of = EgressCounters.due, Metering._report_egress
    attempts = iter(range(1 << 30))

    def due(self: EgressCounters, most: int, *, unfinished: bool = False) -> list[Any]:
        for event in real(self, most, unfinished=unfinished):
            del self._due[event.number]
            self._due[self._next_number] = event._replace(number=self._next_number)
            self._next_number += 1
        return list(self._due.values())[:most]

    async def report(self: Metering) -> None:
        """Not a mutant of its own: every second put is stored without an answer."""
        put = self._put

        async def unanswered(lines: Any) -> None:
            await put(lines)
            if next(attempts) % 2:
                raise OutcomeUnknown("no answer")

        self._put = unanswered
        try:
            await put_of(self)
        finally:
            self._put = put

    patch.setattr(EgressCounters, "due", due)
    patch.setattr(Metering, "_report_egress", report)


def _drift(name: str, apply: Any) -> Mutant:
    return Mutant(name, _names("egress-drift"), apply, EGRESS)


EGRESS_MUTANTS = (
    _drift("carry a minute over", carry_a_minute_over),
    _drift("name every start alike", name_every_start_alike),
    _drift("number anew after an unknown put", number_anew_after_an_unknown_put),
)
