"""MetaStore and RowStore on SQLite files."""

from opentalos.adapters.sqlite.database_file import log_cuts
from opentalos.adapters.sqlite.meta_store import SqliteMetaStore, open_sqlite_meta_store
from opentalos.adapters.sqlite.row_store import SqliteRowStore, open_sqlite_row_store

__all__ = [
    "SqliteMetaStore",
    "SqliteRowStore",
    "log_cuts",
    "open_sqlite_meta_store",
    "open_sqlite_row_store",
]
