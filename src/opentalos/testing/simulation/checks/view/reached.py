"""How far a log certainly reached at a time, according to the replies that clients received."""

from bisect import bisect_left

from opentalos.testing.simulation.checks.view.log_view import LogView
from opentalos.testing.simulation.history import Operation


class Reached:
    """The largest next offset that was known for certain at a time.

    Args: server: if given, only replies of this server count.
    """

    def __init__(self, view: LogView, server: object = None) -> None:
        known: list[tuple[float, int]] = []

        def learn(operation: Operation, following: int) -> None:
            if server is None or operation.args.get("server") == server:
                known.append((operation.ended_s, following))

        for message_id, put in view.acked_ids():
            place = view.first_place(message_id)
            if "offset" in put.result:
                learn(put, int(put.result["offset"]) + len(put.args["ids"]))
            elif place is not None:
                learn(put, place + 1)  # of several copies the first was there at the ack
        for seen in view.seen:
            learn(seen.operation, seen.offset + 1)
        for each in view.ranges:
            learn(each, int(each.result["next"]))
        known.sort()
        self._times = [time_s for time_s, _ in known]
        self._next: list[int] = []
        highest = 0
        for _, following in known:
            highest = max(highest, following)
            self._next.append(highest)

    def before(self, time_s: float) -> int:
        """The next offset known strictly before ``time_s``; 0 if none was."""
        index = bisect_left(self._times, time_s)
        return self._next[index - 1] if index else 0
