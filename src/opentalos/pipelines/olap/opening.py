"""Opens the OLAP store of a pipeline's settings, and retries while a store is unavailable."""

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import unquote, urlsplit

from opentalos.model.errors import ConfigError, Unavailable
from opentalos.pipelines.olap.delta_store import DeltaStore
from opentalos.pipelines.olap.druid_store import DruidStore
from opentalos.pipelines.olap.parquet_store import ParquetStore
from opentalos.pipelines.olap.store import OlapStore
from opentalos.pipelines.olap.table_set import TableSet

DOWN_S_MAX: Final = 3600.0  # then the job fails, and its supervisor restarts it
BACKOFF_S_MIN: Final = 1.0
BACKOFF_S_MAX: Final = 30.0
_FOLDER: Final = "file://"
_DELTA: Final = "delta+"

_LOG: Final = logging.getLogger(__name__)
_T = TypeVar("_T")


def open_olap(home: Path, url: str = "", sets: Sequence[TableSet] = ()) -> OlapStore:
    """The store at a URL; without one, Parquet below ``home``.

    Args:   url: ``druid://...``; ``delta+hdfs://...`` or ``delta+s3://...``; ``file:///PATH``:
            Parquet in this folder; sets: tables that are always replaced together; readers give
            the same as writers.
    Raises: ConfigError.
    """
    if url.startswith(_DELTA):
        return DeltaStore(url, sets)
    if url.startswith(_FOLDER):
        found = urlsplit(url)
        if found.netloc or not found.path.strip("/"):
            raise ConfigError(f"{url!r} is not a folder of this machine: write file:///PATH")
        return ParquetStore(home, Path(unquote(found.path)))
    return DruidStore(url, sets) if url else ParquetStore(home)


def when_up(
    what: str, action: Callable[[], _T], *, sleep: Callable[[float], None] = time.sleep
) -> _T:
    """Retry an idempotent action while the store is unavailable.

    Every failed attempt is logged as an alarm. The caller has not moved its checkpoint, so nothing
    is lost in any case. Raises: Unavailable after ``DOWN_S_MAX`` of waiting.
    """
    waited_s, pause_s = 0.0, BACKOFF_S_MIN
    while True:
        try:
            done = action()
        except Unavailable as error:
            if waited_s >= DOWN_S_MAX:
                raise
            _LOG.error(
                "ALARM olap store unavailable: table=%s waited_s=%.0f error=%s",
                what,
                waited_s,
                error,
            )
            sleep(pause_s)
            waited_s += pause_s
            pause_s = min(2 * pause_s, BACKOFF_S_MAX)
        else:
            if waited_s:
                _LOG.warning("olap store available again: table=%s waited_s=%.0f", what, waited_s)
            return done
