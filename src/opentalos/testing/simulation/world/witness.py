"""Witness: hears of failures that nobody planned for and that a server logged and survived.

A task's root logs such a failure once with its trace and goes on where it can, so no caller and no
loop sees it; the log is the only place that tells. A ``TalosError`` was planned for.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from opentalos.model.errors import TalosError
from opentalos.testing.simulation.loop import current_process

_LOGGERS = "opentalos"  # every logger below it


class Witness(logging.Handler):
    """What was logged with an exception. ``failures``: a text each, in their order."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.failures: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Take in one record."""
        error = record.exc_info[1] if record.exc_info else None
        if error is None or isinstance(error, TalosError):
            return
        process = current_process()
        where = process.name if process else "world"
        self.failures.append(f"{where}: {record.getMessage()}: {error!r}")


@contextmanager
def heard_only() -> Iterator[Witness]:
    """Nothing is logged meanwhile, since faults are expected; the witness hears all the same."""
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
