"""Real HDFS, ZooKeeper and HBase for the figures of a cluster: started once, or those given."""

import contextlib
import getpass
import json
import os
import shutil
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from opentalos.backends.fleet import Fleet
from opentalos.backends.places import Say
from opentalos.cli.demo.leftovers import guarded

HOME = Path(__file__).resolve().parent.parent / ".cache" / "bench-backends"
GIVEN = "OPENTALOS_BACKENDS"  # as the tests have it: a file of addresses
HTTP_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Backends:
    """Where they are."""

    fleet: Fleet
    jars: str
    hdfs_url: str
    hdfs_conf_dir: str
    zookeeper_hosts: str
    hbase_url: str

    def files_open_for_write(self, folder: str) -> int:
        """Files below an HDFS folder that have a writer, as the NameNode itself counts them."""
        asked = {"ugi": getpass.getuser(), "path": f"/{folder}", "openforwrite": "1", "files": "1"}
        port = self.fleet.hdfs.ports["nn-http"]
        url = f"http://127.0.0.1:{port}/fsck?{urllib.parse.urlencode(asked)}"
        with urllib.request.urlopen(url, timeout=HTTP_TIMEOUT_S) as answer:
            lines = answer.read().decode().splitlines()
        if not any(line.startswith("Status:") for line in lines):
            raise RuntimeError(f"the NameNode did not check /{folder}: {lines[-3:]}")
        return sum("OPENFORWRITE" in line for line in lines)


@contextlib.contextmanager
def running_backends(say: Say) -> Iterator[Backends]:
    """Those of OPENTALOS_BACKENDS, else fresh ones that end with the run."""
    if given := os.environ.get(GIVEN):
        yield _of(json.loads(Path(given).read_text()))
        return
    fleet = Fleet(HOME)
    if HOME.exists():
        fleet.kill()  # what an interrupted run left
        shutil.rmtree(HOME)
    with guarded(HOME):
        fleet.start(say)
        yield _of(fleet.addresses())


def _of(addresses: dict[str, str]) -> Backends:
    return Backends(
        fleet=Fleet(Path(addresses["home"])),
        jars=addresses["jars"],
        hdfs_url=addresses["hdfs_url"],
        hdfs_conf_dir=addresses["hdfs_conf_dir"],
        zookeeper_hosts=addresses["zookeeper_hosts"],
        hbase_url=addresses["hbase_url"],
    )
