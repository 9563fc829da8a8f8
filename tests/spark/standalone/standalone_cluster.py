"""A real standalone cluster of Spark: a master and two workers, each a process of its own.

The workers have addresses and directories of their own. Nothing of the checkout is importable on
them: executors get the package in an archive, as ``spark-submit --archives`` ships it. Only what it
depends on is linked from the installed environment, since an archive with that has 600 MB.
"""

import os
import re
import shutil
import sysconfig
import tarfile
import venv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pyspark
from tests.spark.java_classes import quick_java, quick_options
from tests.spark.pipeline_process import SaidProcess, runs
from tests.waiting import completed, eventually, limit_s

import opentalos
from opentalos.adapters.java_home import lean_spark_home, spark_java_home

MASTER_HOST = "127.0.0.1"  # and the driver's
WORKER_HOSTS = ("127.0.0.2", "127.0.0.3")
EXECUTOR = "CoarseGrainedExecutorBackend"
PYTHON = "./environment/bin/python"
_TALOS = '#!/bin/sh\nexec "$(dirname "$0")/python" -m opentalos.cli.main "$@"\n'
_OF_THE_TESTS = ("PYTHON", "PYSPARK", "SPARK", "TALOS", "VIRTUAL_ENV")  # variables, by their begin


def clean_environment() -> dict[str, str]:
    """The environment of a machine that knows nothing of the checkout."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(_OF_THE_TESTS)}
    home = lean_spark_home(Path(pyspark.__path__[0]))
    return {
        **kept,
        "JAVA_HOME": str(spark_java_home()),
        "SPARK_HOME": str(home),
        "SPARK_DAEMON_MEMORY": "128m",
        "SPARK_DAEMON_JAVA_OPTS": quick_options(),
    }


def small_driver(folder: Path) -> dict[str, str]:
    """Settings of a driver on the master's host with small executors."""
    return {
        "spark.driver.host": MASTER_HOST,
        "spark.driver.bindAddress": MASTER_HOST,
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": quick_options(),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.port": "0",
        **quick_java(),
    }


def conf_options(settings: Mapping[str, str]) -> list[str]:
    """Settings of Spark on a command line."""
    return [part for name, text in settings.items() for part in ("--conf", f"{name}={text}")]


def make_environment(folder: Path) -> Path:
    """An environment as ``python -m venv`` makes it, with the package; and its archive."""
    made = folder / "environment"
    venv.EnvBuilder(symlinks=True, with_pip=False).create(made)
    (packages,) = made.glob("lib/python*/site-packages")
    # A path in a .pth file adds packages, and not the .pth files among them: so no checkout.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    shutil.copytree(opentalos.__path__[0], packages / "opentalos")
    (made / "bin" / "talos").write_text(_TALOS)
    (made / "bin" / "talos").chmod(0o755)
    archive = folder / "environment.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        for path in sorted(made.iterdir()):
            tar.add(path, path.name)
    return archive


def make_package(folder: Path) -> Path:
    """What a wheel contains, under a name that Spark takes for a package."""
    source = Path(opentalos.__path__[0])
    return Path(shutil.make_archive(str(folder / "opentalos"), "zip", source.parent, source.name))


class Family(SaidProcess):
    """A process that is killed with everything that it has started."""

    def kill(self) -> None:
        with suppress(psutil.NoSuchProcess):
            started = psutil.Process(self.pid).children(recursive=True)
            super().kill()
            for process in started:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(started, limit_s())


class StandaloneCluster:
    """Master and workers; ``folder`` has a directory for each of them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.url = folder, ""
        self.archive = make_environment(folder)
        self.package = make_package(folder)
        self._daemons: list[Family] = []

    def start(self) -> None:
        """Start, and wait until both workers are registered."""
        master = self._daemon("master", "master.Master", "--host", MASTER_HOST)
        begun = "Starting Spark master at "
        master.wait_for(begun)
        found = re.search(rf"{begun}(spark://\S+)", master.said())
        assert found is not None
        self.url = found[1]
        workers = [
            self._daemon(host, "worker.Worker", "--host", host, *self._worker(host))
            for host in WORKER_HOSTS
        ]
        for worker in workers:
            worker.wait_for("Successfully registered with master")

    def stop(self) -> None:
        """Kill everything."""
        for daemon in reversed(self._daemons):
            daemon.kill()

    def executors(self) -> list[psutil.Process]:
        """The Java processes of executors that are alive."""
        found = []
        for daemon in self._daemons:
            for process in psutil.Process(daemon.pid).children():
                with suppress(psutil.NoSuchProcess):
                    if any(EXECUTOR in word for word in process.cmdline()):
                        found.append(process)
        return found

    def submitted_program(self) -> str:
        """The file for spark-submit, as the package in the environment names it."""
        command = [PYTHON, "-m", "opentalos.cli.main", "pipeline", "submit-file"]
        done = completed(command, cwd=self.folder, env=clean_environment(), check=True)
        return done.stdout.strip()

    def work_files(self) -> list[Path]:
        """Logs of executors, in the workers' directories."""
        paths = self.folder.glob("127.0.0.*/**/std*")
        return [path for path in paths if path.is_file()]

    @contextmanager
    def driver(self, name: str, *command: str, submit: bool) -> Iterator[Family]:
        """A driver in a directory of its own, started by spark-submit or by itself."""
        folder = self.folder / name
        folder.mkdir()
        (folder / "environment").symlink_to(self.folder / "environment")
        environment = {**clean_environment(), "PYSPARK_PYTHON": PYTHON}
        started = [PYTHON, "-m", "opentalos.cli.main", "pipeline", *command]
        settings = self._settings(folder)
        if submit:
            program = Path(environment["SPARK_HOME"]) / "bin" / "spark-submit"
            started = [str(program), "--master", self.url, *settings, *command]
        else:
            started += ["--master", self.url, *settings]
        running = Family(folder, started, environment, folder)
        try:
            yield running
        finally:
            running.kill()

    def _settings(self, folder: Path) -> list[str]:
        (folder / "events").mkdir()
        settings = {
            "spark.archives": f"{self.archive}#environment",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": f"file://{folder}/events",
        }
        return conf_options({**settings, **small_driver(folder)})

    def _worker(self, host: str) -> list[str]:
        work = self.folder / host / "work"
        return ["--cores", "1", "--memory", "1g", "--work-dir", str(work), self.url]

    def _daemon(self, name: str, kind: str, *argv: str) -> Family:
        environment = clean_environment()
        program = Path(environment["SPARK_HOME"]) / "bin" / "spark-class"
        command = [str(program), f"org.apache.spark.deploy.{kind}", "--port", "0"]
        folder = self.folder / name
        environment["SPARK_LOCAL_DIRS"] = str(folder / "local")
        daemon = Family(folder, [*command, "--webui-port", "0", *argv], environment, folder)
        self._daemons.append(daemon)
        return daemon


@contextmanager
def running_cluster(folder: Path) -> Iterator[StandaloneCluster]:
    """A cluster in a new folder until the end of the block."""
    folder.mkdir()
    started = StandaloneCluster(folder)
    try:
        started.start()
        yield started
    finally:
        started.stop()


def killed(process: psutil.Process) -> None:
    """SIGKILL, and wait for its end."""
    process.kill()
    eventually(f"process {process.pid} ends after SIGKILL", lambda: not runs(process))
