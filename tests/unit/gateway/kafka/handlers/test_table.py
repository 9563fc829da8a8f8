from opentalos.gateway.kafka.handlers import TABLE
from opentalos.wire.kafka.apis import ApiKey, api_of
from opentalos.wire.kafka.spec import includes


def test_what_is_served_is_within_the_definitions() -> None:
    for key, served in TABLE.items():
        known = api_of(key).versions
        assert all(includes(known, version) for version in served.versions), key


def test_librdkafka_finds_the_handshake() -> None:
    # Debian's kcat, with librdkafka 2.0, says that the server has none unless version 0 is there.
    assert TABLE[ApiKey.SASL_HANDSHAKE].versions == (0, 1)
