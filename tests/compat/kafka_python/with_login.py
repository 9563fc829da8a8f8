"""A pytest plugin for kafka-python's own tests: its clients log in to the server of KAFKA_URI."""

import importlib
import os
import sys
import types
from typing import Any


class ExternalService:
    """A server that the tests do not start; their source distribution lacks this module."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port

    def open(self) -> None:
        pass

    def close(self) -> None:
        pass

    def stop(self) -> None:
        pass


# Before the first conftest is read.
_service: Any = types.ModuleType("test.service")
_service.ExternalService = _service.SpawnedService = ExternalService
sys.modules["test.service"] = _service


def pytest_configure(config: object) -> None:
    fixture = importlib.import_module("test.integration.fixtures").KafkaFixture
    plain = fixture._enrich_client_params
    name, _, secret = os.environ["KAFKA_LOGIN"].partition(":")
    login = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": name,
        "sasl_plain_password": secret,
    }

    def with_login(self: object, params: dict[str, Any], **defaults: Any) -> dict[str, Any]:
        found: dict[str, Any] = plain(self, params, **defaults)
        return found | login

    fixture._enrich_client_params = with_login
