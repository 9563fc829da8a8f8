"""End as the command does while a thread is inside Java, making types.

usage: leaving_java.py JARS STATUS
"""

import importlib
import sys
import threading
from pathlib import Path
from typing import Any

from opentalos.adapters.jvm import start_jvm
from opentalos.cli.main import _end
from opentalos.model.limits import JvmLimits

jpype: Any = importlib.import_module("jpype")


def make_types(begun: threading.Event) -> None:
    """Wrap class after class of a jar, as a client does that is being opened."""
    jar = next(Path(sys.argv[1]).glob("hadoop-client-api-*"))
    for entry in jpype.JClass("java.util.jar.JarFile")(str(jar)).stream().toArray():
        name = str(entry.getName())
        if name.startswith("org/apache/hadoop/hdfs/") and name.endswith(".class"):
            try:
                jpype.JClass(name.removesuffix(".class").replace("/", "."))
            except Exception:  # of a class that needs another jar
                continue
            begun.set()


start_jvm(JvmLimits(jars=sys.argv[1]), [])
begun = threading.Event()
threading.Thread(target=make_types, args=(begun,), daemon=True).start()
begun.wait()
_end(int(sys.argv[2]))
