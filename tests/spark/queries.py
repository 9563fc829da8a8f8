"""Streaming queries on a machine that may be too busy to start their Python in time."""

import time
from collections.abc import Callable

from pyspark.sql.streaming.query import StreamingQuery

# Spark waits ten seconds, which is not settable, for the Python of each query's source; it says so
# before the query begins with anything.
LATE = "Python worker failed to connect back"
STARTS_MAX = 5
_POLL_S = 0.05


def started(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """The query, begun or ended; started again while its Python is late."""
    for _ in range(STARTS_MAX):
        query = start()
        while query.isActive and "Initializing" in query.status["message"]:
            time.sleep(_POLL_S)
        if query.isActive or LATE not in str(query.exception()):
            return query
    raise AssertionError(f"{STARTS_MAX} times in a row: {LATE}")
