"""ZooKeeper: one standalone server."""

import socket
from collections.abc import Mapping

from opentalos.backends.daemon import Launch
from opentalos.backends.jars import java, need_jars
from opentalos.backends.ports import HOST
from opentalos.backends.service import Backend

_HEAP_MB = 128
_TICK_MS = 500  # a session lasts at least two ticks
_SESSION_MAX_MS = 60_000
_PROBE_TIMEOUT_S = 2.0
_CONFIG = """dataDir={data}
clientPort={port}
clientPortAddress={host}
tickTime={tick_ms}
minSessionTimeout={session_min_ms}
maxSessionTimeout={session_max_ms}
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=ruok,envi,srvr,stat,mntr,cons,dump,wchs
"""


class ZookeeperBackend(Backend):
    """One daemon, ``zookeeper``."""

    kind = "zookeeper"
    default_port = 2181

    @property
    def hosts(self) -> str:
        """HOST:PORT for clients."""
        return f"{HOST}:{self.ports['client']}"

    @property
    def url(self) -> str:
        return f"zookeeper://{self.hosts}"

    def names(self) -> list[str]:
        return [self.kind]

    def missing(self) -> str:
        """Ready once it replies to ``ruok``."""
        try:
            with socket.create_connection((HOST, self.ports["client"]), _PROBE_TIMEOUT_S) as link:
                link.sendall(b"ruok")
                if link.recv(16) == b"imok":
                    return ""
        except OSError:
            return "no reply"
        return "not serving requests"

    def _port_uses(self, first: int) -> Mapping[str, int]:
        return {"client": first}

    def _prepare(self) -> None:
        data = self.home / "data"
        data.mkdir(exist_ok=True)
        (self.home / "zoo.cfg").write_text(
            _CONFIG.format(
                data=data,
                port=self.ports["client"],
                host=HOST,
                tick_ms=_TICK_MS,
                session_min_ms=2 * _TICK_MS,
                session_max_ms=_SESSION_MAX_MS,
            )
        )

    def _launch(self, name: str) -> Launch:
        flags = [f"-Xmx{_HEAP_MB}m", "-Xms32m", *self._java_flags]
        flags.append("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
        main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        path = f"{need_jars(self.kind)}/*"
        return Launch([java(), *flags, "-cp", path, main, str(self.home / "zoo.cfg")])
