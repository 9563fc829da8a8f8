"""The ports of the core: FileStore, MetaStore, RowStore, Clock, Offload; Peers in a cluster."""
