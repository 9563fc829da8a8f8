"""Configuration files of Hadoop, HBase and their logging."""

from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

_LOG4J = """log4j.rootLogger={level},A
log4j.appender.A=org.apache.log4j.ConsoleAppender
log4j.appender.A.target=System.err
log4j.appender.A.layout=org.apache.log4j.PatternLayout
log4j.appender.A.layout.ConversionPattern=%d{{ISO8601}} %p %c{{2}}: %m%n
"""


def write_site(path: Path, properties: Mapping[str, object]) -> None:
    """Write a ``*-site.xml``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ['<?xml version="1.0"?>', "<configuration>"]
    for name, value in properties.items():
        text = str(value).lower() if isinstance(value, bool) else escape(str(value))
        lines.append(f"  <property><name>{name}</name><value>{text}</value></property>")
    path.write_text("\n".join([*lines, "</configuration>", ""]))


def write_log4j(folder: Path, level: str, **loggers: str) -> None:
    """Write ``log4j.properties``: log to stderr from ``level`` upwards."""
    folder.mkdir(parents=True, exist_ok=True)
    more = "".join(f"log4j.logger.{name}={value}\n" for name, value in loggers.items())
    (folder / "log4j.properties").write_text(_LOG4J.format(level=level) + more)
