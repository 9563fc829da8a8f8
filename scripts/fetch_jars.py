"""Fetch the jars of the real backends, or say in one line why the cluster tests cannot run.

Quick when they are there. Never fails: what needs no Java must work without it.
"""

from opentalos.cli.backend.jars import CLIENT, SERVERS, fetch
from opentalos.cli.backend.places import BackendError


def say(text: str) -> None:
    print(f"setup: {text}", flush=True)


def main() -> None:
    for kind in (*SERVERS, CLIENT):
        try:
            fetch(kind, say)
        except BackendError as error:
            say(f"no cluster tests: {error.message}")
            return


if __name__ == "__main__":
    main()
