"""A real Kafka that sends its clients through the proxies."""

from pathlib import Path
from typing import Final

from opentalos.backends.kafka import KafkaBackend
from opentalos.backends.ports import HOST

ALICE: Final = ("alice", "alice-secret-of-tests")
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_MORE: Final = """
listeners=PLAINTEXT://{host}:{client},SASL://{host}:{sasl},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{proxy},SASL://{host}:{sasl_proxy}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=PLAIN
unstable.api.versions.enable=true
listener.name.sasl.plain.sasl.jaas.config={plain} required user_{name}="{password}";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:{name}
"""


class RecordedKafka(KafkaBackend):
    """Args: proxies: the advertised ports, without SASL and with it."""

    def __init__(self, homes: Path, proxies: tuple[int, int]) -> None:
        super().__init__(homes)
        self._proxies = proxies

    def _port_uses(self, first: int) -> dict[str, int]:
        return {"client": first, "controller": first + 1, "sasl": first + 2}

    def _prepare(self) -> None:
        super()._prepare()
        proxy, sasl_proxy = self._proxies
        name, password = ALICE
        more = _MORE.format(
            **self.ports,
            host=HOST,
            plain=_PLAIN,
            proxy=proxy,
            sasl_proxy=sasl_proxy,
            name=name,
            password=password,
        )
        with (self.home / "server.properties").open("a") as settings:
            settings.write(more)
