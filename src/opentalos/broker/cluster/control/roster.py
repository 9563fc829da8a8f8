"""Roster: the candidates of a plan: members since when, and reservations for absent servers."""

from collections.abc import Iterable, Mapping

from opentalos.broker.cluster.records import LeavingKind, LeavingRecord, ServerRecord
from opentalos.placement.values import Candidate

RESERVED_S_MAX = 600.0  # of any reservation, whatever the server announced
STOP_S = 60.0  # a server that announced a restart has stopped by then
_RESTARTS = (LeavingKind.RESTART.value, LeavingKind.LEND.value)


class Roster:
    """Turns records into candidates; times are on this process's loop clock.

    An announced restart is counted from the first sight of the absence, so it ends even if clocks
    differ. ``drain_kept_s``: a drain is forgotten when its server was away for so long.
    """

    def __init__(self, drain_kept_s: float) -> None:
        self._drain_kept_s = drain_kept_s
        self._seen: dict[str, tuple[ServerRecord, float]] = {}  # the living, since when
        self._absent: dict[str, float] = {}  # those that leave or left, since when
        self._noted: dict[str, tuple[LeavingRecord, float]] = {}  # announcements, since when
        self._expected: Mapping[str, float] = {}  # after an outage, until when

    def expect(self, names: Mapping[str, float]) -> None:
        """Keep what these servers have until the times given: coordination was away, and they
        serve on until they can register again."""
        self._expected = names

    def look(
        self,
        now_s: float,
        alive: Mapping[str, ServerRecord],
        leaving: Iterable[LeavingRecord],
    ) -> Mapping[str, Candidate]:
        """The candidates now. ``alive``: registered, and no port refuses."""
        noted = {record.name: record for record in leaving}
        self._noted = {
            name: noted_before
            if (noted_before := self._noted.get(name)) is not None and noted_before[0] == record
            else (record, now_s)
            for name, record in noted.items()
        }
        self._seen = {
            name: seen
            if (seen := self._seen.get(name)) is not None and seen[0] == record
            else (record, now_s)
            for name, record in alive.items()
        }
        self._absent = {name: self._absent.get(name, now_s) for name in noted if name not in alive}
        candidates = {}
        for name in sorted({*alive, *noted, *self._expected}):
            record = noted.get(name)
            candidates[name] = Candidate(
                name=name,
                alive=name in alive,
                since_s=self._seen[name][1] if name in alive else now_s,
                reserved_until_s=max(
                    self._reserved_until_s(record), self._expected.get(name, float("-inf"))
                ),
                draining=record is not None and record.kind == LeavingKind.DRAIN.value,
                lending=record is not None and record.kind == LeavingKind.LEND.value,
            )
        return candidates

    def outdated(self, now_s: float, leaving: Iterable[LeavingRecord]) -> list[LeavingRecord]:
        """Announcements to remove: the server is back, did not stop, or stayed away too long."""
        return [record for record in leaving if self._is_outdated(now_s, record)]

    def next_look_s(self, now_s: float) -> float:
        """Loop time at which an announcement may be outdated by itself."""
        times = [absent_s + self._drain_kept_s for absent_s in self._absent.values()]
        times += self._expected.values()
        times += [since_s + max(record.wait_s, STOP_S) for record, since_s in self._noted.values()]
        return min((time_s for time_s in times if time_s > now_s), default=float("inf"))

    def _is_outdated(self, now_s: float, record: LeavingRecord) -> bool:
        seen, absent_s = self._seen.get(record.name), self._absent.get(record.name)
        if record.kind in _RESTARTS:
            if seen is not None:
                # Still there after all the time it asked for: it did not stop, or does not serve.
                noted_s = self._noted[record.name][1] if record.name in self._noted else now_s
                stayed = now_s >= noted_s + max(record.wait_s, STOP_S)
                # Whoever lends takes its announcement back itself, once it serves.
                waits = record.kind == LeavingKind.RESTART.value
                return stayed or (waits and seen[0].incarnation != record.incarnation)
            return now_s >= self._reserved_until_s(record)
        return absent_s is not None and now_s >= absent_s + self._drain_kept_s

    def _reserved_until_s(self, record: LeavingRecord | None) -> float:
        if record is None or record.kind not in _RESTARTS:
            return float("-inf")
        absent_s = self._absent.get(record.name, float("-inf"))
        return absent_s + min(max(record.wait_s, 0.0), RESERVED_S_MAX)
