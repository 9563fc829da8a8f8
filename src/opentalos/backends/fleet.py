"""HDFS, ZooKeeper and HBase together, for tests and the cluster demo."""

from pathlib import Path
from typing import Any

from opentalos.backends.hadoop.hdfs import HdfsBackend
from opentalos.backends.hbase import HbaseBackend
from opentalos.backends.jars import CLIENT, fetch
from opentalos.backends.places import Say, jars_folder
from opentalos.backends.service import Backend
from opentalos.backends.zookeeper import ZookeeperBackend


class Fleet:
    """HDFS, ZooKeeper and HBase below one directory."""

    def __init__(self, home: Path) -> None:
        self.home = home.absolute()
        self.hdfs = HdfsBackend(home)
        self.zookeeper = ZookeeperBackend(home)
        self.hbase = HbaseBackend(home)

    @property
    def backends(self) -> list[Backend]:
        """The backends in start order."""
        return [self.hdfs, self.zookeeper, self.hbase]

    def start(self, say: Say, *, datanodes: int = 3, brief: bool = False) -> None:
        """Fetch jars, start all backends on free ports, and wait until they are ready.

        Args: brief: for short runs: faster start, slower execution.
        """
        for kind in (*(backend.kind for backend in self.backends), CLIENT):
            fetch(kind, say)
        if brief:
            for backend in self.backends:
                backend.compile_less()
        self.zookeeper.launch(say, port=0)
        self.hbase.launch(say, port=0)
        self.hdfs.start(say, port=0, datanodes=datanodes)
        self.zookeeper.wait_ready(say)
        self.hbase.wait_ready(say)

    def stop(self, say: Say) -> None:
        """Stop all backends."""
        for backend in reversed(self.backends):
            backend.stop(say)

    def kill(self) -> None:
        """Kill all backends; for data that is not needed again."""
        for backend in reversed(self.backends):
            for name in backend.names():
                backend.daemon(name).kill()

    def addresses(self) -> dict[str, Any]:
        """The addresses and paths that clients need, as JSON values."""
        return {
            "home": str(self.home),
            "jars": str(jars_folder(CLIENT)),
            "hdfs_url": self.hdfs.url,
            "hdfs_conf_dir": str(self.hdfs.conf_dir),
            "zookeeper_hosts": self.zookeeper.hosts,
            "hbase_url": self.hbase.url,
        }
