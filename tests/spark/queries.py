"""Streaming queries on a machine that may be too busy to start their Python in time."""

from collections.abc import Callable
from functools import partial

from pyspark.sql.streaming.query import StreamingQuery
from tests.waiting import eventually

# Spark waits ten seconds, which is not settable, for the Python of each query's source; it says so
# before the query begins with anything.
LATE = "Python worker failed to connect back"
STARTS_MAX = 5


def started(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """The query, begun or ended; started again while its Python is late."""
    for _ in range(STARTS_MAX):
        query = start()
        eventually("the query begins", partial(_begun, query), state=partial(_status, query))
        if query.isActive or LATE not in str(query.exception()):
            return query
    raise AssertionError(f"{STARTS_MAX} times in a row: {LATE}")


def finished(query: StreamingQuery) -> None:
    """Wait until it has ended. Raises: what it failed with; WaitEnded."""
    eventually("the query ends", lambda: query.awaitTermination(1), state=partial(_status, query))


def _begun(query: StreamingQuery) -> bool:
    return not query.isActive or "Initializing" not in query.status["message"]


def _status(query: StreamingQuery) -> object:
    return query.status, query.lastProgress
