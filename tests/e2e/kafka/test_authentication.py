"""Every way to be known on the port for Kafka, by unmodified clients, and its end."""

import base64
import hashlib
import hmac
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from tests.e2e.kafka.clients import (
    by_aiokafka,
    by_java,
    by_kafka_python,
    by_librdkafka,
    java_login,
    kafka_address,
)
from tests.e2e.rest.client import authorization, rest
from tests.e2e.test_oidc import IssuerServer, issuer  # noqa: F401 - a fixture
from tests.kafka_wire import KafkaWire
from tests.server_process import ROOT_KEY, Key, ServerProcess
from tests.shared_servers import SharedServers, tenant
from tests.tls_files import TlsFolder
from tests.unit.adapters.oidc.issuer import AUDIENCE
from tests.waiting import scale, within_limit

from opentalos.wire.kafka import scram
from opentalos.wire.kafka.apis import ApiKey

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
TOPICS = {"orders"}
HOUR_S = 3_600
REFUSED_S = 2.0  # clients try again until then
SESSION_S = 5.0  # of a token that is to expire, on a quiet machine


@pytest.fixture(scope="module")
def server(servers: SharedServers) -> ServerProcess:
    running = servers.get()
    made = rest(running, "POST", "topics", {"name": "orders", "partitions": 3})
    assert made.status == 201
    return running


@pytest.fixture(scope="module")
def holder(server: ServerProcess) -> Key:
    """The key of a user who has one topic."""
    key = tenant(server)
    made = rest(server, "POST", "topics", {"name": "orders", "partitions": 3}, authorization(key))
    assert made.status == 201
    return key


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_key_is_a_user_for_librdkafka(server: ServerProcess, holder: Key, mechanism: str) -> None:
    login: dict[str, Any] = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": holder.key_id,
        "sasl.password": holder.secret,
    }
    address = kafka_address(server)
    assert by_librdkafka(address, **login) == TOPICS
    with pytest.raises(KafkaException):
        by_librdkafka(address, REFUSED_S, **{**login, "sasl.username": "nobody", "log_level": 0})


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_key_is_a_user_for_clients_in_python(
    server: ServerProcess, holder: Key, mechanism: str
) -> None:
    login: dict[str, Any] = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": holder.key_id,
        "sasl_plain_password": holder.secret,
    }
    assert by_aiokafka(kafka_address(server), **login) == TOPICS
    assert by_kafka_python(kafka_address(server), **login) == TOPICS


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_key_is_a_user_for_java(server: ServerProcess, mechanism: str, tmp_path: Path) -> None:
    login = java_login(mechanism, ROOT_KEY)
    assert "orders" in by_java(kafka_address(server), tmp_path, login, "--list")


async def test_unknown_keys_look_like_known_ones(server: ServerProcess) -> None:
    """The salt is there, stays the same, and the refusal is the same."""
    known, salts = ROOT_KEY.key_id, list[bytes]()
    for name in (known, known, "nobody", "nobody"):
        async with KafkaWire(kafka_address(server)) as wire:
            first = await wire.offer("SCRAM-SHA-256", f"n,,n={name},r=abc".encode())
            assert first.error_code == 0
            nonce, salt, iterations = first.auth_bytes.decode().split(",")
            assert iterations == "i=4096"
            salts.append(base64.b64decode(salt[2:]))
            final = f"c=biws,{nonce},p={base64.b64encode(b'0' * 32).decode()}"
            refused = await wire.sasl(final.encode())
            assert refused.error_code == 58
            assert refused.error_message.startswith("unknown key, wrong secret")
            assert await wire.ended()
    assert salts[0] == salts[1] != salts[2] == salts[3]
    assert len(salts[0]) == len(salts[2])


async def test_messages_of_another_form_end_the_connection(server: ServerProcess) -> None:
    for mechanism, message in (
        ("PLAIN", b"no zero bytes"),
        ("PLAIN", b"other\0AKROOTTEST\0root-secret-of-tests"),
        ("SCRAM-SHA-256", b"p=tls-unique,,n=x,r=y"),
        ("SCRAM-SHA-512", b"\xff"),
    ):
        async with KafkaWire(kafka_address(server)) as wire:
            assert (await wire.offer(mechanism, message)).error_code == 58
            assert await wire.ended()
    async with KafkaWire(kafka_address(server)) as wire:
        assert (await wire.sasl(b"")).error_code == 34
        assert await wire.ended()
    async with KafkaWire(kafka_address(server)) as wire:
        old = await wire.call(ApiKey.SASL_HANDSHAKE, 0, mechanism="PLAIN")
        assert old.error_code == 35
        chosen = await wire.call(ApiKey.SASL_HANDSHAKE, 1, mechanism="GSSAPI")
        assert (chosen.error_code, chosen.mechanisms) == (33, list(MECHANISMS))
        await wire.send(bytes.fromhex("0000000d0003000100000001ffff000000"))
        assert await wire.ended(), "nobody asks for topics before authentication"


def new_key(server: ServerProcess, principal: str) -> Key:
    assert rest(server, "POST", "principals", {"id": principal}).status == 201
    made = rest(server, "POST", f"principals/{principal}/keys").document
    return Key(made["key_id"], made["secret"])


async def scram_login(wire: KafkaWire, key: Key) -> None:
    first = await wire.offer("SCRAM-SHA-256", f"n,,n={key.key_id},r=abc".encode())
    nonce, salt, _ = first.auth_bytes.decode().split(",")
    keys = scram.derive("sha256", key.secret.encode(), base64.b64decode(salt[2:]))
    unproven = f"c=biws,{nonce}"
    exchange = f"n={key.key_id},r=abc,{first.auth_bytes.decode()},{unproven}"
    proof = client_proof(key.secret.encode(), base64.b64decode(salt[2:]), exchange)
    final = await wire.sasl(f"{unproven},p={base64.b64encode(proof).decode()}".encode())
    assert final.error_code == 0, final.error_message
    assert final.auth_bytes.decode() == scram.server_final("sha256", keys, exchange)


def client_proof(secret: bytes, salt: bytes, exchange: str) -> bytes:
    salted = hashlib.pbkdf2_hmac("sha256", secret, salt, 4096)
    client = hmac.digest(salted, b"Client Key", "sha256")
    signature = hmac.digest(hashlib.sha256(client).digest(), exchange.encode(), "sha256")
    return bytes(left ^ right for left, right in zip(client, signature, strict=True))


async def test_a_removed_key_ends_its_connections(server: ServerProcess) -> None:
    """Requests are refused at once, idle connections end with the next look."""
    address = kafka_address(server)
    for principal, idle in (("anna", True), ("bert", False)):
        key = new_key(server, principal)
        async with KafkaWire(address) as wire, KafkaWire(address) as other:
            await scram_login(wire, key)
            await other.plain()
            assert (await wire.call(ApiKey.DESCRIBE_CLUSTER, 1)).error_code == 0
            assert rest(server, "DELETE", f"keys/{key.key_id}").status == 204
            if not idle:
                await wire.send(bytes.fromhex("0000000c003c000000000009ffff0000"))
            assert await wire.ended()
            assert (await other.call(ApiKey.DESCRIBE_CLUSTER, 1)).error_code == 0


async def test_a_connection_keeps_its_principal(server: ServerProcess) -> None:
    async with KafkaWire(kafka_address(server)) as wire:
        await wire.plain()
        await wire.plain()
        key = new_key(server, "carl")
        again = await wire.offer("PLAIN", f"\0{key.key_id}\0{key.secret}".encode())
        assert again.error_code == 58
        assert await wire.ended()


def test_a_token_is_a_principal_until_it_expires(
    tmp_path: Path,
    issuer: IssuerServer,  # noqa: F811
) -> None:
    config = (
        f'[oidc]\nissuer = "{issuer.issuer.url}"\naudience = "{AUDIENCE}"\n'
        'principal_claim = "email"\ncreate_principals = true\nalgorithms = "RS256"\n'
    )
    running = ServerProcess(tmp_path, config).start()
    try:
        token = issuer.issuer.token("first", email="eve@example")
        login: dict[str, Any] = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
        }
        asked = list[str]()

        def answer(_: str) -> tuple[str, float]:
            asked.append(token)
            return token, time.time() + HOUR_S  # the claim is about time

        found = by_librdkafka(kafka_address(running), **login, oauth_cb=answer)
        assert (found, asked) == (set(), [token])
        assert rest(running, "GET", "principals/eve@example").status == 200
    finally:
        running.stop()


async def test_a_session_says_when_it_ends(
    tmp_path: Path,
    issuer: IssuerServer,  # noqa: F811
) -> None:
    config = (
        f'[oidc]\nissuer = "{issuer.issuer.url}"\naudience = "{AUDIENCE}"\n'
        'principal_claim = "email"\ncreate_principals = true\nalgorithms = "RS256"\n'
        "leeway_s = 0\n"
    )
    running = ServerProcess(tmp_path, config).start()
    session_s = SESSION_S * scale()
    try:
        async with KafkaWire(kafka_address(running)) as wire:
            end_s = time.time() + session_s  # the claim is about time
            token = issuer.issuer.token("first", email="eve@example", exp=end_s)
            sent = f"n,a=eve@example,\x01auth=Bearer {token}\x01\x01".encode()
            first = await wire.offer("OAUTHBEARER", sent)
            assert first.error_code == 0, first.error_message
            assert 0 < first.session_lifetime_ms <= session_s * 1000
            end_s = time.time() + session_s + 1.0  # the claim is about time
            token = issuer.issuer.token("first", email="eve@example", exp=end_s)
            sent = f"n,,\x01auth=Bearer {token}\x01\x01".encode()
            second = await wire.offer("OAUTHBEARER", sent)
            assert second.session_lifetime_ms > 0
            async with within_limit("the session ends with its token"):
                with suppress(EOFError, ConnectionError):
                    while True:
                        await wire.call(ApiKey.DESCRIBE_CLUSTER, 1)
        async with KafkaWire(kafka_address(running)) as wire:
            sent = b"n,,\x01auth=Bearer no-token\x01\x01"
            assert (await wire.offer("OAUTHBEARER", sent)).error_code == 58
    finally:
        running.stop()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> TlsFolder:
    return TlsFolder(tmp_path_factory.mktemp("tls"))


def test_clients_over_tls(tmp_path: Path, folder: TlsFolder) -> None:
    more = folder.section(
        client_ca_file=str(folder.ca), client_principals="dns=*.example", client_optional=True
    ).replace("True", "true")
    server = ServerProcess(tmp_path, more).start()
    trust = folder.trust()
    try:
        assert (
            rest(server, "POST", "topics", {"name": "orders", "partitions": 1}, trust=trust).status
            == 201
        )
        assert rest(server, "POST", "principals", {"id": "client"}, trust=trust).status == 201
        address, ca = kafka_address(server), str(folder.ca)
        login: dict[str, Any] = {
            "sasl.mechanism": "PLAIN",
            "sasl.username": ROOT_KEY.key_id,
            "sasl.password": ROOT_KEY.secret,
        }
        tls: dict[str, Any] = {"ssl.ca.location": ca, "security.protocol": "SASL_SSL"}
        assert by_librdkafka(address, **tls, **login) == TOPICS
        python: dict[str, Any] = {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": ROOT_KEY.key_id,
            "sasl_plain_password": ROOT_KEY.secret,
        }
        assert by_aiokafka(address, folder.ca, **python) == TOPICS
        assert by_kafka_python(address, ssl_cafile=ca, **python) == TOPICS
        java = java_login("PLAIN", ROOT_KEY, "SASL_SSL")
        java |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": ca}
        assert "orders" in by_java(address, tmp_path, java, "--list")
        issued = folder.authority.issue_cert("client.example")
        cert, key = tmp_path / "client.pem", tmp_path / "client.key"
        cert.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
        key.write_bytes(issued.private_key_pem.bytes())
        shown: dict[str, Any] = {
            "ssl.certificate.location": str(cert),
            "ssl.key.location": str(key),
        }
        tls = {"ssl.ca.location": ca, "security.protocol": "SSL"}
        assert by_librdkafka(address, **tls, **shown) == set(), "client has no topics"
        with pytest.raises(KafkaException):
            by_librdkafka(address, REFUSED_S, **tls, log_level=0)
    finally:
        server.stop()


def test_guests_see_what_guests_are_granted(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path, "[auth]\nanonymous = true\n").start()
    try:
        for name in ("open", "closed"):
            assert rest(server, "POST", "topics", {"name": name, "partitions": 1}).status == 201
        grant = {"permissions": ["GET_MESSAGE"]}
        granted = rest(server, "PUT", "topics/open/permissions/guest", grant)
        assert granted.status in (200, 201, 204), granted
        assert by_librdkafka(kafka_address(server)) == {"root/open"}
    finally:
        server.stop()
