"""Events that wait on disk until the queue takes them."""

from opentalos.adapters.spool.last_step import read_last_step, write_last_step
from opentalos.adapters.spool.outbox import Outbox, SpoolFigures
from opentalos.adapters.spool.spool import Spool

__all__ = ["Outbox", "Spool", "SpoolFigures", "read_last_step", "write_last_step"]
