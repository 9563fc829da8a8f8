"""Witness: collects unexpected failures that a server logged and survived.

A task's root logs such a failure once with its traceback and continues where it can, so neither a
caller nor the loop sees it: the log is the only evidence. A ``TalosError`` is expected.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from opentalos.model.errors import TalosError
from opentalos.testing.simulation.loop import current_process

_LOGGERS = "opentalos"  # every logger below it


class Witness(logging.Handler):
    """Records that were logged with an exception. ``failures``: their texts, in order."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.failures: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one record."""
        error = record.exc_info[1] if record.exc_info else None
        if error is None or isinstance(error, TalosError):
            return
        process = current_process()
        where = process.name if process else "world"
        self.failures.append(f"{where}: {record.getMessage()}: {error!r}")


@contextmanager
def witness_errors() -> Iterator[Witness]:
    """Send the log of ``opentalos`` to the witness only: simulated faults log a lot."""
    witness, logger = Witness(), logging.getLogger(_LOGGERS)
    propagate = logger.propagate
    logging.disable(logging.WARNING)
    logger.addHandler(witness)
    logger.propagate = False
    try:
        yield witness
    finally:
        logger.propagate = propagate
        logger.removeHandler(witness)
        logging.disable(logging.NOTSET)
