"""The four ports the core stands on: FileStore, MetaStore, RowStore and Clock."""
