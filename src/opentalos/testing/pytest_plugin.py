"""Pytest fixtures for tests that need a Talos server; pytest loads them with the package.

``talos_server`` (session): a real server, started for the first test that asks for it.
``talos_client_config`` (session): a ClientConfig for it, as its administrator.
``talos_topic`` (function): the name of a fresh topic with four partitions.

Nothing is imported before a fixture is used, so other tests start as fast as without the plugin.
"""

import itertools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from opentalos.sdk import ClientConfig
    from opentalos.testing.embedded import EmbeddedServer

TOPIC_PARTITIONS = 4
_NAME_CHARS_MAX = 60  # a topic's name may have 80
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9-]+")
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def talos_server() -> "Iterator[EmbeddedServer]":
    """A real server on a local port, with its data in a temporary directory."""
    from opentalos.testing.embedded import EmbeddedServer

    with EmbeddedServer() as server:
        yield server


@pytest.fixture(scope="session")
def talos_client_config(talos_server: "EmbeddedServer") -> "ClientConfig":
    """A ClientConfig for ``talos_server`` as its administrator."""
    return talos_server.client_config()


@pytest.fixture
def talos_topic(talos_server: "EmbeddedServer", request: pytest.FixtureRequest) -> str:
    """The name of a topic that only this test uses."""
    test = _NOT_IN_NAMES.sub("-", request.node.name)[:_NAME_CHARS_MAX].strip("-")
    name = f"{test}-{next(_numbers)}"
    talos_server.create_topic(name, TOPIC_PARTITIONS)
    return name
