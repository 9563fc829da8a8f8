"""Which files of a store on HDFS are being written, as the NameNode lists them."""

import itertools
from collections import Counter
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

from tests.conftest import RunningBackends

from opentalos.adapters.hdfs.client import HdfsClient
from opentalos.adapters.hdfs.configuration import parse_hdfs_url
from opentalos.adapters.jvm import start_jvm
from opentalos.model.errors import TalosError
from opentalos.model.limits import HdfsLimits, JvmLimits

SAMPLE_PAUSE_S = 0.3


def hdfs_client(backends: RunningBackends, url: str) -> HdfsClient:
    """A client of the store at ``url``, in the Java machine of this process."""
    conf_dir = Path(backends.hdfs_conf_dir)
    start_jvm(JvmLimits(jars=str(backends.jars)), [conf_dir])
    return HdfsClient(parse_hdfs_url(url), conf_dir, HdfsLimits(conf_dir=str(conf_dir)))


def open_files(client: HdfsClient) -> dict[str, list[str]]:
    """Files of the store by the writer that has the lease. Raises: TalosError: no answer."""
    import jpype  # runs by now

    kinds = jpype.JClass("org.apache.hadoop.hdfs.protocol.OpenFilesIterator$OpenFilesType")
    every = jpype.JClass("java.util.EnumSet").of(kinds.ALL_OPEN_FILES)
    folder = client.full_name("")
    found: dict[str, list[str]] = {}
    with client._translating(folder):
        listed = client._fs.listOpenFiles(every, folder)
        while listed.hasNext():
            entry = listed.next()
            path = str(entry.getFilePath())
            if path.startswith(folder):
                found.setdefault(str(entry.getClientName()), []).append(path)
    return found


class OpenFilesWatch:
    """Asks the NameNode all the time, in a thread; while it is away it is not known."""

    def __init__(self, client: HdfsClient) -> None:
        self._client = client
        self._peaks: Counter[str] = Counter()
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="open-files", daemon=True)
        self._thread.start()

    def take_peak(self) -> int:
        """The most files that a writer had open since the last call."""
        peaks, self._peaks = self._peaks, Counter()
        return max(peaks.values(), default=0)

    def now(self) -> int:
        """The most files that a writer has open. Raises: TalosError: no answer."""
        return max(map(len, open_files(self._client).values()), default=0)

    def paths(self) -> list[str]:
        """The files that are being written. Raises: TalosError: no answer."""
        return sorted(itertools.chain(*open_files(self._client).values()))

    def stop(self) -> None:
        """End after the call under way."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(SAMPLE_PAUSE_S):
            with suppress(TalosError):
                for writer, paths in open_files(self._client).items():
                    self._peaks[writer] = max(self._peaks[writer], len(paths))
