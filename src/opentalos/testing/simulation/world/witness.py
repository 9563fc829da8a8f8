"""Witness: collects unexpected failures that a server logged and survived.

A task's root logs such a failure once with its traceback and continues where it can, so neither a
caller nor the loop sees it: the log is the only evidence. A ``TalosError`` is expected, and so is
what a simulated store raised on purpose. It also hears of logs that a server found shorter.
"""

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from opentalos.model.errors import TalosError
from opentalos.testing.simulation.loop import current_process
from opentalos.testing.simulation.stores.troubles import InjectedError

TRUNCATED = "log-truncated"  # how such a line begins
_PARTITION = re.compile(r"topic (?P<topic>[^ ]+) partition (?P<partition>\d+)")
_LOGGERS = "opentalos"  # every logger below it


class Witness(logging.Handler):
    """Records that were logged with an exception. ``failures``: their texts, in order.

    ``truncated`` is called with topic uuid and partition of each log that was found shorter.
    """

    def __init__(self, truncated: Callable[[str, int], None]) -> None:
        super().__init__(logging.WARNING)
        self.failures: list[str] = []
        self._truncated = truncated

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one record."""
        if isinstance(record.msg, str) and record.msg.startswith(TRUNCATED):
            found = _PARTITION.search(record.getMessage())
            if found is not None:
                self._truncated(found["topic"], int(found["partition"]))
        error = record.exc_info[1] if record.exc_info else None
        if error is None or isinstance(error, TalosError | InjectedError):
            return
        process = current_process()
        where = process.name if process else "world"
        self.failures.append(f"{where}: {record.getMessage()}: {error!r}")


@contextmanager
def witness_errors(
    truncated: Callable[[str, int], None] = lambda topic, partition: None,
) -> Iterator[Witness]:
    """Send the log of ``opentalos`` to the witness only: simulated faults log a lot."""
    witness, logger = Witness(truncated), logging.getLogger(_LOGGERS)
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
