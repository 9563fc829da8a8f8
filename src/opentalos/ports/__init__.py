"""The ports the core stands on: FileStore, MetaStore, RowStore, Clock, and Peers in a cluster."""
