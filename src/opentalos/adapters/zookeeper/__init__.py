"""MetaStore on ZooKeeper 3.6 or newer."""

from opentalos.adapters.zookeeper.meta_store import ZookeeperMetaStore, open_zookeeper_meta_store

__all__ = ["ZookeeperMetaStore", "open_zookeeper_meta_store"]
