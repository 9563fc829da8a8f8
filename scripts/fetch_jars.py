"""Fetch the jars of real backends and Java clients, or say which tests cannot run without them.

Quick when they are there. Never fails: what needs no Java must work without it.
"""

from opentalos.backends.jars import (
    CLIENT,
    DRUID_KAFKA,
    JAVA_CLIENTS,
    PIPELINES,
    SERVERS,
    SPARK_KAFKA,
    fetch,
)
from opentalos.backends.places import BackendError


def say(text: str) -> None:
    print(f"setup: {text}", flush=True)


def fetch_all(kinds: tuple[str, ...], tests: str) -> None:
    for kind in kinds:
        try:
            fetch(kind, say)
        except BackendError as error:
            say(f"no tests of {tests}: {error}")
            return


def main() -> None:
    fetch_all((*SERVERS, CLIENT), "clusters")
    fetch_all(PIPELINES, "pipelines with their backends")
    fetch_all((JAVA_CLIENTS,), "the official Java clients")
    fetch_all((SPARK_KAFKA, DRUID_KAFKA), "what Spark and Druid read from Kafka's port")


if __name__ == "__main__":
    main()
