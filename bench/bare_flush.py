"""The Java client alone: how long hflush of 1 KiB takes, in a separate process.

    python -m bench.bare_flush HDFS_FILE CONF_DIR JARS

For each line on stdin, a number of seconds, one line of JSON: flushes per second and the P99. One
thread writes to one file and flushes continuously.
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from opentalos.adapters.hdfs.configuration import java_configuration, parse_hdfs_url
from opentalos.adapters.jvm import start_jvm
from opentalos.model.limits import HdfsLimits, JvmLimits

RECORD_BYTES = 1 << 10
STOP_TIMEOUT_S = 20.0


class BareFlush:
    """The program, driven by another process."""

    def __init__(self, file: str, conf_dir: str, jars: str) -> None:
        command = [sys.executable, "-m", "bench.bare_flush", file, conf_dir, jars]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> "BareFlush":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        process = self._process
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def run(self, seconds: float) -> tuple[float, float]:
        """Flushes per second, and their P99 in milliseconds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(seconds, file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the bare flush loop ended")
        report = json.loads(line)
        return report["per_s"], report["p99_ms"]


def open_stream(url: str, conf_dir: str, jars: str) -> tuple[Any, Any]:
    """A stream with an open pipeline, and a record as a Java array."""
    import jpype

    start_jvm(JvmLimits(jars=jars), [])
    classes, location = jpype.JClass, parse_hdfs_url(url)
    configuration = java_configuration(classes, Path(conf_dir), HdfsLimits())
    uri = classes("java.net.URI").create(location.uri)
    system = classes("org.apache.hadoop.fs.FileSystem").newInstance(uri, configuration)
    stream = system.create(classes("org.apache.hadoop.fs.Path")(location.root))
    record = jpype.JArray(jpype.JByte)(bytes(RECORD_BYTES))
    stream.write(record)
    stream.hflush()
    return stream, record


def flush_times_ms(stream: Any, record: Any, seconds: float) -> list[float]:
    """Write and flush for some seconds."""
    times_ms: list[float] = []
    until_s = time.perf_counter() + seconds
    while not times_ms or time.perf_counter() < until_s:
        began_s = time.perf_counter()
        stream.write(record)
        stream.hflush()
        times_ms.append((time.perf_counter() - began_s) * 1e3)
    return times_ms


def main() -> None:
    """Serve requests until stdin ends."""
    stream, record = open_stream(*sys.argv[1:])
    for line in sys.stdin:
        seconds = float(line)
        ordered = sorted(flush_times_ms(stream, record, seconds))
        answer = {"per_s": len(ordered) / seconds, "p99_ms": ordered[len(ordered) * 99 // 100]}
        print(json.dumps(answer), flush=True)
    stream.close()


if __name__ == "__main__":
    main()
