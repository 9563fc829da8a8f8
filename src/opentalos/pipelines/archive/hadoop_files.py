"""Files of the file system that a path is on, local or HDFS, through Spark's own Hadoop client."""

from typing import TYPE_CHECKING, Any

from opentalos.model.errors import StoreUnavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class HadoopFiles:
    """A few operations by full path; errors of Java come as they are."""

    def __init__(self, spark: "SparkSession", root: str) -> None:
        context: Any = spark.sparkContext
        self._machine = context._jvm
        self._fs = self._path(root).getFileSystem(context._jsc.hadoopConfiguration())

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        return bool(self._fs.exists(self._path(path)))

    def glob(self, pattern: str) -> list[str]:
        """Full paths that match, in the order of their names."""
        found = self._fs.globStatus(self._path(pattern)) or []
        return sorted(one.getPath().toString() for one in found)

    def delete(self, path: str) -> None:
        """Remove a file or a folder with what is in it, if it is there."""
        self._fs.delete(self._path(path), True)

    def delete_all(self, pattern: str) -> None:
        """Remove what matches."""
        for path in self.glob(pattern):
            self.delete(path)

    def rename(self, source: str, target: str) -> None:
        """Move a file, making the folder. Raises: StoreUnavailable: it was not moved."""
        destination = self._path(target)
        self._fs.mkdirs(destination.getParent())
        if not self._fs.rename(self._path(source), destination):
            raise StoreUnavailable(f"{source} could not be moved to {target}")

    def write_new(self, path: str, text: str) -> None:
        """Make a small file, whole or not at all; one of that name is replaced."""
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
