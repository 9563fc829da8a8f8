"""FileStore on HDFS, through the official Java client in the process."""

from opentalos.adapters.hdfs.append_file import HdfsAppendFile
from opentalos.adapters.hdfs.file_store import HdfsFileStore, open_hdfs_file_store

__all__ = ["HdfsAppendFile", "HdfsFileStore", "open_hdfs_file_store"]
