"""Opens a table of the lake by its URL, which says in which home and format it is."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from opentalos.model.errors import ConfigError
from opentalos.pipelines.lake.delta_table import DeltaLakeTable
from opentalos.pipelines.lake.lake_table import LakeTable
from opentalos.pipelines.lake.layout import Layout
from opentalos.pipelines.lake.parquet_table import ParquetTable

_DELTA: Final = "delta+"
_STORES: Final = ("file", "hdfs", "s3")
_NO_OPTIONS: Final[Mapping[str, str]] = MappingProxyType({})
_FORMS: Final = "/PATH, delta+file:///PATH, delta+hdfs://HOST:PORT/PATH or delta+s3://BUCKET/PATH"


def open_lake_table(
    url: str, layout: Layout, options: Mapping[str, str] = _NO_OPTIONS
) -> LakeTable:
    """The table at a path (Parquet, for one machine) or a URL ``delta+STORE://...``.

    Args:   options: storage options of deltalake that the environment does not give.
    Raises: ConfigError: not such a URL, or not this table; StoreUnavailable.
    """
    if "://" not in url:
        return ParquetTable(Path(url), layout)
    found = urlsplit(url.removeprefix(_DELTA))
    where = found.path if found.scheme == "file" else found.netloc
    if not url.startswith(_DELTA) or found.scheme not in _STORES or not where:
        raise ConfigError(f"{url!r} is not the URL of a lake table: write {_FORMS}")
    return DeltaLakeTable(url.removeprefix(_DELTA), layout, options)
