"""RowStore on HBase 2.4 or newer, through the Java client in this process."""

from opentalos.adapters.hbase.row_store import HbaseRowStore, open_hbase_row_store

__all__ = ["HbaseRowStore", "open_hbase_row_store"]
