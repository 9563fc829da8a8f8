"""Witness: collects unexpected failures that a server logged and survived.

A task's root logs such a failure once with its traceback and continues where it can, so neither a
caller nor the loop sees it: the log is the only evidence. A ``TalosError`` is expected, and so is
what a simulated store raised on purpose. It also hears what a server left out of a log.
"""

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from opentalos.model.errors import TalosError
from opentalos.testing.simulation.loop import current_process
from opentalos.testing.simulation.stores.troubles import InjectedError

# What a server left out of a log, by the first word of the line: kinds of notes.
HEARD = {
    "log-truncated": "truncated",
    "log-tail-cut": "tail-cut",
    "log-set-aside": "set-aside",
    "log-unproven": "set-aside",  # as soon as it is opened
}
_PARTITION = re.compile(r"topic (?P<topic>[^ ]+) partition (?P<partition>\d+)")
_OFFSET = re.compile(r" offset (\d+)")
_JOURNAL = re.compile(r"journal (?P<journal>[^ :]+)")
_SEGMENT = re.compile(r"(?P<path>(?P<topic>[^/ ]+)/(?P<partition>\d+)/[^/ ]+\.log)")
_LOGGERS = "opentalos"  # every logger below it


class Heard(NamedTuple):
    """A line about a log that continues without something. ``journal``: all that need it."""

    kind: str
    topic: str = ""
    partition: int = 0
    path: str = ""  # of the segment that was set aside
    offset: int = 0  # from which on a log's tail was cut; 0: the line does not say
    journal: str = ""


def heard_in(text: str) -> Heard | None:
    """What a line of the server's log says; None: nothing of that."""
    kind = HEARD.get(text.partition(":")[0])
    if kind is None:
        return None
    where = _SEGMENT if kind == "set-aside" else _PARTITION
    found = where.search(text)
    if found is not None:
        path = found["path"] if where is _SEGMENT else ""
        offset = int(at[1]) if (at := _OFFSET.search(text)) else 0
        return Heard(kind, found["topic"], int(found["partition"]), path, offset)
    found = _JOURNAL.search(text)
    return Heard(kind, journal=found["journal"]) if found is not None else None


class Witness(logging.Handler):
    """Records that were logged with an exception. ``failures``: their texts, in order.

    ``hear`` is called with what a server left out of a log.
    """

    def __init__(self, hear: Callable[[Heard], None]) -> None:
        super().__init__(logging.WARNING)
        self.failures: list[str] = []
        self._hear = hear

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one record."""
        heard = heard_in(record.getMessage())
        if heard is not None:
            self._hear(heard)
        error = record.exc_info[1] if record.exc_info else None
        if error is None or isinstance(error, TalosError | InjectedError):
            return
        process = current_process()
        where = process.name if process else "world"
        self.failures.append(f"{where}: {record.getMessage()}: {error!r}")


@contextmanager
def witness_errors(
    hear: Callable[[Heard], None] = lambda heard: None,
) -> Iterator[Witness]:
    """Send the log of ``opentalos`` to the witness only: simulated faults log a lot."""
    witness, logger = Witness(hear), logging.getLogger(_LOGGERS)
    propagate = logger.propagate
    logging.disable(logging.INFO)
    logger.addHandler(witness)
    logger.propagate = False
    try:
        yield witness
    finally:
        logger.propagate = propagate
        logger.removeHandler(witness)
        logging.disable(logging.NOTSET)
