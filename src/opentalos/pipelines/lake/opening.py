"""Opens a table of the lake by its URL, which says in which home and format it is."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from opentalos.model.errors import ConfigError
from opentalos.pipelines.lake.delta.table import DeltaLakeTable, delta_layout
from opentalos.pipelines.lake.lake_table import LakeTable
from opentalos.pipelines.lake.layout import Layout
from opentalos.pipelines.lake.parquet_table import ParquetTable, parquet_layout

_DELTA: Final = "delta+"
_STORES: Final = ("file", "hdfs", "s3")
_NO_OPTIONS: Final[Mapping[str, str]] = MappingProxyType({})
_FORMS: Final = "/PATH, delta+file:///PATH, delta+hdfs://HOST:PORT/PATH or delta+s3://BUCKET/PATH"


def open_lake_table(
    url: str, layout: Layout, options: Mapping[str, str] = _NO_OPTIONS, *, create: bool = True
) -> LakeTable:
    """The table at a path (Parquet, for one machine) or a URL ``delta+STORE://...``.

    Args:   options: storage options of deltalake that the environment does not give; create: if
            there is no table at the URL; one at a path is created by its first batch.
    Raises: ConfigError: not such a URL, or not this table; NotFound: no table is at the URL;
            StoreUnavailable.
    """
    if "://" not in url:
        return ParquetTable(Path(url), layout)
    return DeltaLakeTable(delta_url(url), layout, options, create=create)


def table_place(home: Path, lake: str, name: str) -> str:
    """Path or URL of a pipeline's table.

    Args: lake: path or URL of a run's option --lake; "": below ``home``.
    """
    return f"{lake.rstrip('/')}/{name}" if lake else str(home / "lake" / name)


def pipeline_table(home: Path, lake: str, layout: Layout, *, create: bool = False) -> LakeTable:
    """A pipeline's table, for its readers; its writer creates it. As ``open_lake_table``."""
    return open_lake_table(table_place(home, lake, layout.name), layout, create=create)


def open_existing(
    url: str, time_name: str | None = None, options: Mapping[str, str] = _NO_OPTIONS
) -> tuple[LakeTable, Layout]:
    """A table that is there, and its layout as it records it, without its key.

    Args:   time_name: its column of time, which tables of earlier releases do not record.
    Raises: ConfigError: not such a URL, or the column is not known; NotFound; StoreUnavailable.
    """
    if "://" not in url:
        layout = parquet_layout(Path(url), time_name)
    else:
        layout = delta_layout(delta_url(url), time_name, options)
    return open_lake_table(url, layout, options), layout


def delta_url(url: str) -> str:
    """The URL as deltalake has it. Raises: ConfigError: it is not ``delta+STORE://...``."""
    found = urlsplit(url.removeprefix(_DELTA))
    where = found.path if found.scheme == "file" else found.netloc
    if not url.startswith(_DELTA) or found.scheme not in _STORES or not where:
        raise ConfigError(f"{url!r} is not the URL of a lake table: write {_FORMS}")
    return url.removeprefix(_DELTA)
