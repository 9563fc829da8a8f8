"""Blocking calls of the Java client to the NameNode. Every method belongs on an I/O thread."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from opentalos.adapters.hdfs.commit_call import CommitCall
from opentalos.adapters.hdfs.configuration import (
    HdfsLocation,
    java_configuration,
    log_in,
    retries_blindly,
)
from opentalos.adapters.hdfs.java_errors import permission_denied, text_of, translated
from opentalos.adapters.hdfs.silent_nodes import silent_nodes
from opentalos.adapters.java_types import java_types
from opentalos.model.errors import ConfigError, NotFound, RequestError, StoreUnavailable
from opentalos.model.limits import HdfsLimits

_BUFFER_BYTES = 4096  # Hadoop's default; the stream has its own packets of 64 KiB


class OpenStream:
    """A Java stream that must be closed."""

    __slots__ = ("stream",)

    def __init__(self, stream: Any) -> None:
        self.stream = stream


class Reader(OpenStream):
    """An input stream, with the state of the file when it was opened."""

    __slots__ = ("file_id", "final", "length", "users")

    def __init__(self, stream: Any, file_id: int, *, final: bool) -> None:
        super().__init__(stream)
        self.file_id, self.final = file_id, final
        self.length = int(stream.getVisibleLength())
        self.users = 0  # reads under way; on the loop


class ReadPlace(NamedTuple):
    """A requested range; ``fresh``: the reader was opened for this read."""

    path: str
    position: int
    bytes_max: int
    fresh: bool


class HdfsClient:
    """One ``FileSystem`` of its own; paths are below the store's root.

    Raises, besides what a method names: StoreUnavailable, not done; OutcomeUnknown of calls that
    change something.
    """

    def __init__(self, location: HdfsLocation, conf_dir: Path | None, limits: HdfsLimits) -> None:
        """Connect. Raises: ConfigError, StoreUnavailable."""
        import jpype  # runs by now; see start_jvm

        classes = java_types(__package__)
        self.java_exception: type[Exception] = jpype.JException
        self.commit_call = CommitCall(jpype, classes)
        self._location, self._limits = location, limits
        self._bytes = jpype.JArray(jpype.JByte)
        self._path = classes("org.apache.hadoop.fs.Path")
        flags = classes("org.apache.hadoop.fs.CreateFlag")
        self._create_flags = classes("java.util.EnumSet").of(flags.CREATE, flags.SYNC_BLOCK)
        self._file_mode = classes("org.apache.hadoop.fs.permission.FsPermission").getFileDefault()
        self._all_actions = classes("org.apache.hadoop.fs.permission.FsAction").ALL
        self._retried = False
        with self._translating(location.uri):
            configuration = java_configuration(classes, conf_dir, limits)
            self._retried = retries_blindly(classes, configuration, location.uri)
            log_in(classes, configuration, limits)
            uri = classes("java.net.URI").create(location.uri)
            file_system = classes("org.apache.hadoop.fs.FileSystem").newInstance(uri, configuration)
            self._fs = classes.ready(file_system)
            self.silent_nodes = silent_nodes(jpype, classes, configuration, limits)

    def full_name(self, path: str) -> str:
        """The file's name in HDFS tools."""
        return f"{self._location.root}/{path}"

    def make_root(self) -> None:
        """Create the store's folder if it is missing. Raises: ConfigError: it cannot be used."""
        root = self._path(self._location.root or "/")
        name = f"{self._location.uri}{root}"
        try:
            self._fs.mkdirs(root)
            self._fs.access(root, self._all_actions)
        except self.java_exception as error:
            if permission_denied(error):
                raise ConfigError(
                    f"{name}: the server needs read, write and execute permission: {text_of(error)}"
                ) from error
            problem = translated(error, name, changes=False, retried=self._retried)
            if isinstance(problem, RequestError):
                raise ConfigError(f"{name}: {text_of(error)}") from error
            raise problem from error

    def create(self, path: str) -> OpenStream:
        """A new file's output stream. Raises: AlreadyExists."""
        limits = self._limits
        with self._translating(path, changes=True):
            stream = self._fs.create(
                self._java_path(path),
                self._file_mode,
                self._create_flags,
                _BUFFER_BYTES,
                limits.replication,
                limits.block_bytes,
                None,
            )
            if self.silent_nodes is not None:
                self.silent_nodes.avoid(stream)
            return OpenStream(stream)

    def recover(self, path: str) -> int | None:
        """Start the lease recovery. Returns: the length if the file is closed. Raises: NotFound."""
        with self._translating(path):  # idempotent
            closed = bool(self._fs.recoverLease(self._java_path(path)))
            return self._length(path) if closed else None

    def final_length(self, path: str) -> int | None:
        """Length of a closed file; None: not closed yet. Raises: NotFound."""
        return self._length(path) if self.is_closed(path) else None

    def is_closed(self, path: str) -> bool:
        """Whether the file has its final content. Raises: NotFound."""
        with self._translating(path):
            return bool(self._fs.isFileClosed(self._java_path(path)))

    def open_reader(self, path: str) -> Reader:
        """An input stream that sees what is committed now. Raises: NotFound."""
        java_path = self._java_path(path)
        with self._translating(path):
            file_id = self._file_id(path)
            final = bool(self._fs.isFileClosed(java_path))  # first: the length is newer
            return Reader(self._fs.open(java_path), file_id, final=final)

    def read(self, reader: Reader, place: ReadPlace) -> bytes | None:
        """Bytes of the file; None: the reader is stale, because the file grew or was replaced.
        Raises: NotFound."""
        path, position, bytes_max, fresh = place
        with self._translating(path):
            if not fresh:
                if self._file_id(path) != reader.file_id:
                    return None
                if not reader.final and position + bytes_max > reader.length:
                    return None
            count = min(bytes_max, reader.length - position)
            if count <= 0:
                return b""
            content = self._bytes(count)
            reader.stream.readFully(position, content, 0, count)
            return bytes(content)

    def list(self, folder: str) -> list[str]:
        """Files below the folder, as paths below the root, sorted; none if it is missing."""
        found: list[str] = []
        folders = [folder]
        while folders:
            parent = folders.pop()
            prefix = f"{parent}/" if parent else ""
            with self._translating(parent):
                try:
                    entries = self._fs.listStatusIterator(self._java_path(parent))
                    while entries.hasNext():
                        status = entries.next()
                        name = f"{prefix}{status.getPath().getName()}"
                        if status.isDirectory():
                            folders.append(name)
                        else:
                            found.append(name)
                except self.java_exception as error:
                    missing = translated(error, parent, changes=False, retried=self._retried)
                    if not isinstance(missing, NotFound):
                        raise
        found.sort()
        return found

    def delete(self, path: str) -> None:
        """Remove a closed file, then folders that became empty."""
        with self._translating(path, changes=True):
            self._fs.delete(self._java_path(path), False)
        parent = path.rpartition("/")[0]
        while parent:
            try:
                if not self._fs.delete(self._java_path(parent), False):
                    return
            except self.java_exception:  # not empty; or unreachable, and an empty folder stays
                return
            parent = parent.rpartition("/")[0]

    def space(self) -> int:
        """Bytes that can be stored in as many replicas as configured."""
        with self._translating(self._location.uri):
            remaining = int(self._fs.getStatus().getRemaining())
        return remaining // self._limits.replication

    def close(self) -> None:
        """Close all streams and the connection to the NameNode."""
        with self._translating(self._location.uri):
            self._fs.close()

    def _java_path(self, path: str) -> Any:
        return self._path(f"{self._location.root}/{path}".rstrip("/") or "/")

    def _length(self, path: str) -> int:
        with self._translating(path):
            return int(self._fs.getFileStatus(self._java_path(path)).getLen())

    def _file_id(self, path: str) -> int:
        """Differs between files that have had the same name one after the other."""
        status = self._fs.getClient().getFileInfo(self.full_name(path))
        if status is None:
            raise NotFound(path)
        return int(status.getFileId())

    @contextmanager
    def _translating(self, name: str, *, changes: bool = False) -> Iterator[None]:
        try:
            yield
        except self.java_exception as error:
            raise translated(error, name, changes=changes, retried=self._retried) from error
        except RuntimeError as error:  # the JVM is shutting down
            raise StoreUnavailable(f"{name}: {error}") from error
