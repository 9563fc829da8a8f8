"""Roster: the candidates of a plan: members since when, and reservations for absent servers."""

from collections.abc import Iterable, Mapping

from opentalos.broker.cluster.records import LeavingKind, LeavingRecord, ServerRecord
from opentalos.placement.values import Candidate

RESERVED_S_MAX = 600.0  # of any reservation, whatever the server announced
STOP_S = 60.0  # a server that announced a restart has stopped by then


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
        for name in sorted({*alive, *noted}):
            record = noted.get(name)
            candidates[name] = Candidate(
                name=name,
                alive=name in alive,
                since_s=self._seen[name][1] if name in alive else now_s,
                reserved_until_s=self._reserved_until_s(record),
                draining=record is not None and record.kind == LeavingKind.DRAIN.value,
            )
        return candidates

    def outdated(self, now_s: float, leaving: Iterable[LeavingRecord]) -> list[LeavingRecord]:
        """Announcements to remove: the server is back, did not stop, or stayed away too long."""
        return [record for record in leaving if self._is_outdated(now_s, record)]

    def next_look_s(self, now_s: float) -> float:
        """Loop time at which an announcement may be outdated by itself."""
        times = [absent_s + self._drain_kept_s for absent_s in self._absent.values()]
        times += [since_s + max(record.wait_s, STOP_S) for record, since_s in self._noted.values()]
        return min((time_s for time_s in times if time_s > now_s), default=float("inf"))

    def _is_outdated(self, now_s: float, record: LeavingRecord) -> bool:
        seen, absent_s = self._seen.get(record.name), self._absent.get(record.name)
        if record.kind == LeavingKind.RESTART.value:
            if seen is not None:
                # Still there after all the time it asked for: it did not stop.
                noted_s = self._noted[record.name][1] if record.name in self._noted else now_s
                stayed = now_s >= noted_s + max(record.wait_s, STOP_S)
                return stayed or seen[0].incarnation != record.incarnation
            return now_s >= self._reserved_until_s(record)
        return absent_s is not None and now_s >= absent_s + self._drain_kept_s

    def _reserved_until_s(self, record: LeavingRecord | None) -> float:
        if record is None or record.kind != LeavingKind.RESTART.value:
            return float("-inf")
        absent_s = self._absent.get(record.name, float("-inf"))
        return absent_s + min(max(record.wait_s, 0.0), RESERVED_S_MAX)
