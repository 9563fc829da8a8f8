"""How a daemon of Hadoop is started."""

from collections.abc import Sequence
from pathlib import Path

from opentalos.backends.jars import java

_OPENED = (
    "java.lang", "java.util", "java.util.concurrent", "java.net", "java.nio", "sun.nio.ch"
)  # fmt: skip


def java_command(heap_mb: int, flags: Sequence[str], class_path: Sequence[str | Path]) -> list[str]:
    """Java with a heap of ``heap_mb`` MiB, without the class that it is to run."""
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
    ip = "-Djava.net.preferIPv4Stack=true"
    path = ":".join(map(str, class_path))
    return [java(), f"-Xmx{heap_mb}m", *flags, ip, *opened, "-cp", path]
