"""Native load generators: wrk for closed loops, openloop.c for open loops."""

import json
import re
import resource
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).parent
_SCALE_US = {"us": 1.0, "ms": 1e3, "s": 1e6, "m": 6e7}


class MissingTool(Exception):
    """A required tool is not installed; the text names the remedy."""


@dataclass(frozen=True, slots=True)
class LoadResult:
    """One run of a generator. Latencies in microseconds; CPU seconds of the generator."""

    requests_per_s: float
    requests: int
    errors: int
    p50_us: float
    p99_us: float
    max_us: float
    client_cpu_s: float
    p95_us: float = 0.0  # p95_us and the bytes: only from openloop
    bytes_out: int = 0
    bytes_in: int = 0

    def as_json(self) -> dict[str, float]:
        """The result as JSON values."""
        return asdict(self)


def write_request_file(path: Path, requests: list[bytes]) -> Path:
    """Write whole HTTP requests in the format that both generators read."""
    path.write_bytes(b"".join(len(request).to_bytes(4, "big") + request for request in requests))
    return path


def closed_loop(url: str, requests: Path, *, connections: int, seconds: int) -> LoadResult:
    """Drive ``connections`` connections that each send the next request on a reply (wrk)."""
    wrk = shutil.which("wrk")
    if wrk is None:
        raise MissingTool("wrk is not installed: apt-get install wrk")
    command = [wrk, "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "--timeout", "10s"]
    command += ["-s", str(HERE / "replay.lua"), url, "--", str(requests)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=seconds + 60)
    return parse_wrk(done.stdout, _children_cpu_s(before))


def parse_wrk(text: str, client_cpu_s: float) -> LoadResult:
    """Read wrk's report. Socket errors and non-2xx replies count as errors."""
    requests = int(_find(r"(\d+) requests in", text))
    errors = sum(
        int(number) for number in re.findall(r"(?:connect|read|write|timeout) (\d+)", text)
    )
    if found := re.search(r"Non-2xx or 3xx responses: (\d+)", text):
        errors += int(found[1])
    return LoadResult(
        requests_per_s=float(_find(r"Requests/sec:\s+([\d.]+)", text)),
        requests=requests,
        errors=errors,
        p50_us=_duration_us(_find(r"\n\s+50%\s+(\S+)", text)),
        p99_us=_duration_us(_find(r"\n\s+99%\s+(\S+)", text)),
        max_us=_duration_us(_find(r"Latency\s+\S+\s+\S+\s+(\S+)", text)),
        client_cpu_s=client_cpu_s,
    )


def open_loop(
    binary: Path, port: int, requests: Path, *, connections: int, rate: float, seconds: float
) -> LoadResult:
    """Send at a fixed rate; latency is measured from the scheduled time of each request."""
    return replay(binary, {port: requests}, connections=connections, rate=rate, seconds=seconds)


def replay(
    binary: Path,
    targets: Mapping[int, Path],
    *,
    connections: int,
    rate: float = 0.0,
    seconds: float,
) -> LoadResult:
    """Send each port its file of requests; ``rate`` 0: a closed loop."""
    ports = ",".join(str(port) for port in targets)
    command = [str(binary), "127.0.0.1", ports, str(connections), str(rate), str(seconds)]
    files = ",".join(str(path) for path in targets.values())
    done = subprocess.run([*command, files], capture_output=True, text=True, timeout=seconds + 90)
    if not done.stdout:
        raise RuntimeError(f"openloop failed: {done.stderr.strip()}")
    report = json.loads(done.stdout)
    return LoadResult(
        requests_per_s=report["rate"],
        requests=report["ok"],
        errors=report["errors"] + report["sent"] - report["ok"] - report["errors"],
        p50_us=report["p50_us"],
        p99_us=report["p99_us"],
        max_us=report["max_us"],
        client_cpu_s=report["cpu_s"],
        p95_us=report["p95_us"],
        bytes_out=report["bytes_out"],
        bytes_in=report["bytes_in"],
    )


def build_open_loop(folder: Path) -> Path:
    """Compile openloop.c with the system's C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise MissingTool("a C compiler is not installed: apt-get install gcc")
    binary = folder / "openloop"
    source = HERE / "openloop.c"
    subprocess.run([compiler, "-O2", "-o", str(binary), str(source)], check=True)
    return binary


def _find(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    if found is None:
        raise RuntimeError(f"unexpected output of wrk, no {pattern!r} in: {text}")
    return found[1]


def _duration_us(text: str) -> float:
    found = re.fullmatch(r"([\d.]+)(us|ms|s|m)", text)
    if found is None:
        raise RuntimeError(f"unexpected duration {text!r} from wrk")
    return float(found[1]) * _SCALE_US[found[2]]


def _children_cpu_s(before: resource.struct_rusage) -> float:
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
