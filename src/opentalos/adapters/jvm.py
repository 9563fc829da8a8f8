"""The one Java virtual machine of the process, for the HDFS and HBase clients.

Both clients carry Hadoop classes of different versions. With the wrong ones first on the class path
the first hflush waits for good without an error, so the order is fixed here and checked at start.
"""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opentalos.model.errors import ConfigError
from opentalos.model.limits import JvmLimits

# In this order, and never a wildcard, whose order is not defined.
_JAR_NAMES = ("hadoop-client-api", "hadoop-client-runtime", "hbase-shaded-client", "opentelemetry")
_LOG_JAR_NAMES = ("slf4j-api", "slf4j-jdk14")
_NEEDED = ("hadoop-client-api", "hadoop-client-runtime", "slf4j-api")
_FETCH = "talos backend fetch hdfs"
_LOGGING_FILE = "logging.properties"
# Errors of calls are translated and shown by the adapters; here they would come a second time,
# with stack traces.
_LOGGING = """\
handlers=java.util.logging.ConsoleHandler
.level=WARNING
org.apache.hadoop.util.NativeCodeLoader.level=SEVERE
org.apache.hadoop.hbase.level=OFF
org.apache.hadoop.hbase.util.Threads.level=WARNING
org.apache.hadoop.hdfs.level=OFF
org.apache.hadoop.ipc.Client.level=OFF
org.apache.hadoop.io.retry.level=OFF
"""


def default_jars() -> Path:
    """Where ``talos backend fetch`` puts the jars of the Java clients."""
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "opentalos" / "jars" / "client"


def configured_folder(given: str, variable: str) -> Path | None:
    """The folder a setting names, else the one an environment variable names, as Java tools do.

    Raises: ConfigError: it is no folder.
    """
    name = given or os.environ.get(variable, "")
    if not name:
        return None
    folder = Path(name)
    if not folder.is_dir():
        raise ConfigError(f"{'conf_dir' if given else variable} {name} is not a folder")
    return folder


def start_jvm(limits: JvmLimits, conf_dirs: Sequence[Path]) -> None:
    """Start the JVM of this process, after any fork; nothing happens if it runs already.

    Blocks for up to a second. Python keeps the signal handlers. The first caller's ``conf_dirs``
    are on the class path; a client must read its own as resources and not rely on that.

    Raises: ConfigError: no JPype, no JVM, no jars, or jars that would not work together.
    """
    try:
        import jpype  # not part of the plain installation
    except ImportError as error:
        raise ConfigError(
            "hdfs:// and hbase:// storage need JPype: pip install 'opentalos[cluster]'"
        ) from error
    if not jpype.isJVMStarted():
        jars = _class_path(Path(limits.jars) if limits.jars else default_jars())
        with tempfile.TemporaryDirectory(prefix="opentalos-jvm-") as folder:
            logging_file = _logging_file(conf_dirs, Path(folder))
            _start(jpype, limits, [*map(str, conf_dirs), *jars], logging_file)
            jpype.JClass("java.util.logging.LogManager").getLogManager()  # reads the file now
    _check_class_origin(jpype)


def has_class(name: str) -> bool:
    """Whether a class is on the class path of the running JVM."""
    import jpype

    try:
        jpype.JClass(name)
    except TypeError:
        return False
    return True


def leave_thread() -> None:
    """Let the JVM forget the calling thread, which ends now."""
    import jpype

    thread = jpype.JClass("java.lang.Thread")
    if thread.isAttached():
        thread.detach()


def _class_path(folder: Path) -> list[str]:
    found: list[str] = []
    for name in _JAR_NAMES + _LOG_JAR_NAMES:
        matches = sorted(str(jar) for jar in folder.glob(f"{name}-*.jar"))
        if not matches and name in _NEEDED:
            raise ConfigError(f"no {name} jar in {folder}; get the jars with: {_FETCH}")
        found += matches
    return found


def _logging_file(conf_dirs: Sequence[Path], folder: Path) -> Path:
    for conf_dir in conf_dirs:
        if (conf_dir / _LOGGING_FILE).is_file():
            return conf_dir / _LOGGING_FILE
    written = folder / _LOGGING_FILE
    written.write_text(_LOGGING)
    return written


def _start(jpype: Any, limits: JvmLimits, class_path: list[str], logging_file: Path) -> None:
    options = (
        f"-Xmx{limits.heap_mb}m",
        "-XX:+UseSerialGC",
        "-Xrs",  # or a signal handler of Python that was set before is lost
        "--add-opens=java.base/java.lang=ALL-UNNAMED",
        "--add-opens=java.base/java.nio=ALL-UNNAMED",
        f"-Djava.util.logging.config.file={logging_file}",
    )
    try:
        jpype.startJVM(*options, classpath=class_path, convertStrings=False)
    except jpype.JVMNotFoundException as error:
        raise ConfigError(
            f"no Java virtual machine: install a Java runtime 17 or newer or set JAVA_HOME; "
            f"the jars then come with: {_FETCH}"
        ) from error
    except (OSError, RuntimeError, TypeError) as error:
        raise ConfigError(f"the Java virtual machine did not start: {error}") from error


def _check_class_origin(jpype: Any) -> None:
    try:
        owner = jpype.JClass("org.apache.hadoop.conf.Configuration").class_
    except TypeError as error:  # another library started the JVM, without our class path
        raise ConfigError("the running JVM has no Hadoop classes on its class path") from error
    origin = str(owner.getProtectionDomain().getCodeSource().getLocation())
    if "hadoop-client-api" not in origin:
        raise ConfigError(
            f"Hadoop classes come from {origin}, not from hadoop-client-api: hflush would hang; "
            f"get matching jars with: {_FETCH}"
        )
