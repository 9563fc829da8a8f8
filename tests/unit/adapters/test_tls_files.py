"""Files of [tls] that cannot be used are named, with their key."""

from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from tests.tls_files import TlsFolder

from opentalos.adapters.tls_files import load_tls, stamp
from opentalos.model.errors import ConfigError
from opentalos.model.settings.security import TlsSettings


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> TlsFolder:
    return TlsFolder(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def settings(folder: TlsFolder) -> TlsSettings:
    return TlsSettings(
        cert_file=str(folder.cert), key_file=str(folder.key), client_ca_file=str(folder.ca)
    )


@pytest.mark.parametrize("key", ["cert_file", "key_file", "client_ca_file", "peer_ca_file"])
@pytest.mark.parametrize("content", [None, b"", b"no PEM", b"\x00\xff" * 100])
def test_a_file_that_cannot_be_used_is_named_with_its_key(
    settings: TlsSettings, tmp_path: Path, key: str, content: bytes | None
) -> None:
    path = tmp_path / "broken"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_tls(replace(settings, **{key: str(path)}))  # type: ignore[arg-type]
    assert f"[tls] {key}: " in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_key_of_another_certificate_is_refused(settings: TlsSettings, tmp_path: Path) -> None:
    other = TlsFolder(tmp_path)
    with pytest.raises(ConfigError) as caught:
        load_tls(replace(settings, key_file=str(other.key)))
    assert f"key_file {other.key} is not the key of cert_file" in str(caught.value)


def test_a_key_with_a_passphrase_is_refused_without_a_prompt(
    settings: TlsSettings, folder: TlsFolder, tmp_path: Path
) -> None:
    key = load_pem_private_key(folder.key.read_bytes(), None)
    locked = key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )
    path = tmp_path / "locked.key"
    path.write_bytes(locked)
    with pytest.raises(ConfigError, match=r"key_file: .* has a pass phrase"):
        load_tls(replace(settings, key_file=str(path)))


def test_a_plain_port_may_still_verify_other_servers(folder: TlsFolder) -> None:
    loaded = load_tls(TlsSettings(peer_ca_file=str(folder.ca)))
    assert loaded.server is None
    assert loaded.client is not None
    assert len(loaded.client.get_ca_certs()) == 1


def test_a_file_replaced_by_one_of_the_same_size_has_another_stamp(
    settings: TlsSettings, tmp_path: Path
) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    first.write_bytes(b"a")
    second.write_bytes(b"b")
    link = tmp_path / "link"
    link.symlink_to(first)
    before = stamp(replace(settings, cert_file=str(link)))
    fresh = tmp_path / "fresh"
    fresh.symlink_to(second)
    fresh.replace(link)
    assert stamp(replace(settings, cert_file=str(link))) != before


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"cert_file": "c"}, "cert_file and key_file, or neither"),
        ({"key_file": "k"}, "cert_file and key_file, or neither"),
        ({"client_ca_file": "c"}, "client_ca_file needs cert_file"),
        ({"minimum_version": "1.1"}, 'minimum_version must be "1.2" or "1.3"'),
    ],
)
def test_keys_that_do_not_go_together_are_refused(keys: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        TlsSettings(**keys)  # type: ignore[arg-type]
