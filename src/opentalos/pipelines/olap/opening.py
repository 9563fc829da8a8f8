"""The OLAP store that a pipeline's settings name, and waiting for one that is down."""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from opentalos.model.errors import Unavailable
from opentalos.pipelines.olap.druid_store import DruidStore
from opentalos.pipelines.olap.parquet_store import ParquetStore
from opentalos.pipelines.olap.store import OlapStore

DOWN_S_MAX: Final = 3600.0  # then the job fails, and whoever watches it starts it again
BACKOFF_S_MIN: Final = 1.0
BACKOFF_S_MAX: Final = 30.0

_LOG: Final = logging.getLogger(__name__)
_T = TypeVar("_T")


def open_olap(home: Path, url: str = "") -> OlapStore:
    """Druid at ``druid://...``, else Parquet below ``home``. Raises: ConfigError."""
    return DruidStore(url) if url else ParquetStore(home)


def when_up(
    what: str, action: Callable[[], _T], *, sleep: Callable[[float], None] = time.sleep
) -> _T:
    """Do something that is safe to repeat, again and again while the store is down.

    Every failed attempt is an alarm in the log. The caller has not moved its checkpoint, so
    nothing is lost, however it ends. Raises: Unavailable after ``DOWN_S_MAX`` of waiting.
    """
    waited_s, pause_s = 0.0, BACKOFF_S_MIN
    while True:
        try:
            done = action()
        except Unavailable as error:
            if waited_s >= DOWN_S_MAX:
                raise
            _LOG.error("ALARM olap store down for %.0f s, %s waits: %s", waited_s, what, error)
            sleep(pause_s)
            waited_s += pause_s
            pause_s = min(2 * pause_s, BACKOFF_S_MAX)
        else:
            if waited_s:
                _LOG.warning("olap store is back after %.0f s, %s goes on", waited_s, what)
            return done
