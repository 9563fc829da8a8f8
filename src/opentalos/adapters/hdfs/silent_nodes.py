"""Takes a DataNode that does not answer out of the pipeline of a commit that waits for it.

Hadoop's client notices such a DataNode after 15 s and more: its socket timeout plus 5 s for each
replica. A lease recovery waits for it as well, so a fresh file would not help. But the
client can continue with the other DataNodes at once, by the pipeline recovery of HDFS, as soon as
it knows which one is bad. So each is asked by a call of its own with a short timeout, and the one
that is silent is named to the client. Measured with three DataNodes and one stopped: 0.7 to 1.2 s
from the commit to its success, in every place of the pipeline.

A connection without an answer is silence: the kernel accepts it for a process that hangs. No
connection may also mean a firewall before the port of such calls, so then the port to which the
pipeline writes decides: only if it takes no connection either, the host is gone.

A new file has no pipeline yet while it waits for such a DataNode, so nothing can be taken out. It
leaves out, from its first commit on, those that were silent of late and still are. The NameNode
itself leaves them out only once it calls them stale.

The client has no public method for it: the names of its fields are checked when a store is opened.
Without them a store works as before.
"""

import logging
from time import monotonic
from typing import Any

from opentalos.model.limits import HdfsLimits

PROBE_S = 0.3  # for the answer of one DataNode, and for a connection to it
VERDICT_S = 1.0  # an answer, or its absence, counts for so long for other files
SUSPECTED_S = 30.0  # a silent one is asked before new files: until the NameNode calls it stale
_NO_ANSWER = "SocketTimeoutException"
_NO_CONNECTION = "ConnectTimeoutException"
_log = logging.getLogger(__name__)


class SilentNodes:
    """For threads that may block. The fields are those of DataStreamer in Hadoop 3.5.0."""

    def __init__(self, jpype: Any, classes: Any, configuration: Any, limits: HdfsLimits) -> None:
        """Raises: JException: this client has no such fields."""
        self._jpype, self._limits = jpype, limits
        self._proxies = classes("org.apache.hadoop.hdfs.DFSUtilClient")
        self._rpc = classes("org.apache.hadoop.ipc.RPC")
        self._network = classes("org.apache.hadoop.net.NetUtils")
        self._integer = classes("java.lang.Integer")
        probes = classes("org.apache.hadoop.conf.Configuration")(configuration)
        probes.setInt("ipc.client.connect.max.retries.on.timeouts", 0)
        self._configuration = probes
        self._by_name = bool(probes.getBoolean("dfs.client.use.datanode.hostname", False))
        output = classes("org.apache.hadoop.hdfs.DFSOutputStream").class_
        self._streamer = _opened(output.getDeclaredMethod("getStreamer"))
        streamer = self._streamer.getReturnType()
        self._nodes = _opened(streamer.getDeclaredField("nodes"))
        self._queue = _opened(streamer.getDeclaredField("dataQueue"))
        self._state = _opened(streamer.getDeclaredField("errorState"))
        state = self._state.getType()
        number = self._integer.TYPE
        self._mark = _opened(state.getDeclaredMethod("setBadNodeIndex", [number]))
        self._fail = _opened(state.getDeclaredMethod("setInternalError"))
        self._excluded = _opened(streamer.getDeclaredField("excludedNodes"))
        anything = classes("java.lang.Object").class_
        self._exclude = self._excluded.getType().getMethod("put", [anything, anything])
        self._known: dict[str, tuple[bool, float]] = {}  # DataNode: silent, until when
        self._suspects: dict[str, tuple[Any, float]] = {}  # DataNode that was silent, until when

    def drop(self, stream: Any) -> str:
        """Name a silent DataNode to the client. Returns: its address; empty: none may be dropped.

        A pipeline that is short already is not cut below ``replicas_min``. A whole one is: the
        client may replace the node, else the file ends and can be fenced without waiting for it.
        """
        streamer = self._streamer.invoke(stream.getWrappedStream())
        nodes = self._nodes.get(streamer)
        if nodes is None or len(nodes) < 2:
            return ""
        short = len(nodes) < self._limits.replication
        if short and len(nodes) <= self._limits.replicas_min:
            return ""
        silent = [place for place, node in enumerate(nodes) if self._is_silent(node)]
        if not silent or len(silent) == len(nodes):
            return ""  # if none answers, nothing is known of them
        state, queue = self._state.get(streamer), self._queue.get(streamer)
        self._mark.invoke(state, self._integer(silent[0]))
        self._fail.invoke(state)
        with self._jpype.synchronized(queue):
            queue.notifyAll()
        return str(nodes[silent[0]].getXferAddr())

    def avoid(self, stream: Any) -> None:
        """Before the first commit of a file: leave out DataNodes that hang.

        A new pipeline waits for them, and unlike that of ``drop`` it cannot be cut meanwhile.
        """
        spare = self._limits.replication - self._limits.replicas_min
        for name, (node, until_s) in list(self._suspects.items()):
            if monotonic() >= until_s:
                self._suspects.pop(name, None)
            elif spare > 0 and self._is_silent(node):
                spare -= 1
                streamer = self._streamer.invoke(stream.getWrappedStream())
                self._exclude.invoke(self._excluded.get(streamer), node, node)

    def _is_silent(self, node: Any) -> bool:
        name = str(node.getXferAddr())
        silent, until_s = self._known.get(name, (False, 0.0))
        if monotonic() >= until_s:
            failure = self._failure_of_connection(node.getIpcAddr(self._by_name))
            if failure == _NO_CONNECTION:
                failure = self._failure_of_connection(node.getXferAddr(self._by_name))
                silent = failure == _NO_CONNECTION
            else:
                silent = not failure and self._failure_of_call(node) == _NO_ANSWER
            self._known[name] = (silent, monotonic() + VERDICT_S)
            if silent:
                self._suspects[name] = (node, monotonic() + SUSPECTED_S)
            else:
                self._suspects.pop(name, None)
        return silent

    def _failure_of_connection(self, address: str) -> str:
        """The exception's name; empty: the port takes connections.

        A call has no connect timeout of its own: Hadoop's calls share that of the first client.
        """
        network = self._network
        socket = network.getDefaultSocketFactory(self._configuration).createSocket()
        try:
            network.connect(socket, network.createSocketAddr(address), int(PROBE_S * 1000))
        except self._jpype.JException as error:
            return str(error.getClass().getSimpleName())
        finally:
            socket.close()
        return ""

    def _failure_of_call(self, node: Any) -> str:
        """The exception's name; empty: it answers. The client itself notices a refusal."""
        proxy = None
        try:
            proxy = self._proxies.createClientDatanodeProtocolProxy(
                node, self._configuration, int(PROBE_S * 1000), self._by_name
            )
            proxy.getDatanodeInfo()
        except self._jpype.JException as error:
            return str(error.getClass().getSimpleName())
        finally:
            if proxy is not None:
                self._rpc.stopProxy(proxy)
        return ""


def silent_nodes(
    jpype: Any, classes: Any, configuration: Any, limits: HdfsLimits
) -> SilentNodes | None:
    """None: this version of Hadoop's client keeps its pipeline in another way."""
    try:
        return SilentNodes(jpype, classes, configuration, limits)
    except (jpype.JException, AttributeError, TypeError) as error:
        _log.warning("a DataNode that hangs stops its writers for long: %s", error)
        return None


def _opened(member: Any) -> Any:
    member.setAccessible(True)
    return member
