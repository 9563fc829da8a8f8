"""Files on any file system of Hadoop, local or HDFS, through Spark's own Hadoop client."""

from typing import TYPE_CHECKING, Any

from opentalos.model.errors import StoreUnavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class HadoopFiles:
    """A few operations by full path; Java's errors are not translated."""

    def __init__(self, spark: "SparkSession", root: str) -> None:
        context: Any = spark.sparkContext
        self._machine = context._jvm
        self._fs = self._path(root).getFileSystem(context._jsc.hadoopConfiguration())

    @property
    def is_local(self) -> bool:
        """Whether they lie on the disks of this machine, which another one may not have."""
        return str(self._fs.getUri().getScheme()) == "file"

    def exists(self, path: str) -> bool:
        """Whether the file or folder exists."""
        return bool(self._fs.exists(self._path(path)))

    def glob(self, pattern: str) -> list[str]:
        """Full paths that match, sorted by name."""
        found = self._fs.globStatus(self._path(pattern)) or []
        return sorted(status.getPath().toString() for status in found)

    def delete(self, path: str) -> None:
        """Remove a file or a folder with its content, if it exists."""
        self._fs.delete(self._path(path), True)

    def delete_all(self, pattern: str) -> None:
        """Remove all that match."""
        for path in self.glob(pattern):
            self.delete(path)

    def rename(self, source: str, target: str) -> None:
        """Move a file; creates the target's folder. Raises: StoreUnavailable: not moved."""
        destination = self._path(target)
        self._fs.mkdirs(destination.getParent())
        if not self._fs.rename(self._path(source), destination):
            raise StoreUnavailable(
                f"could not move {source} to {target}: Hadoop refused the rename"
            )

    def write_new(self, path: str, text: str) -> None:
        """Write a small file atomically; a file of that name is replaced."""
        fresh = f"{path}.fresh"
        stream = self._fs.create(self._path(fresh), True)
        stream.write(bytearray(text.encode()))
        stream.close()
        self._fs.delete(self._path(path), False)
        self.rename(fresh, path)

    def read(self, path: str) -> str:
        """The text of a small file."""
        stream = self._fs.open(self._path(path))
        try:
            text = self._machine.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        return str(text)

    def _path(self, path: str) -> Any:
        return self._machine.org.apache.hadoop.fs.Path(path)
