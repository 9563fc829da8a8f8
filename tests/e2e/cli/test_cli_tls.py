"""The command over TLS: authorities, certificates of clients, and addresses of the wrong kind."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.cli.conftest import Commands
from tests.server_process import ServerProcess
from tests.shared_servers import SharedServers
from tests.tls_files import TlsFolder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> TlsFolder:
    return TlsFolder(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> TlsFolder:
    """An authority that signed nothing of the server."""
    return TlsFolder(tmp_path_factory.mktemp("other"))


@pytest.fixture(scope="module")
def secure(folder: TlsFolder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that wants certificates of its clients."""
    config = folder.section(client_ca_file=str(folder.ca))
    running = ServerProcess(tmp_path_factory.mktemp("secure"), config).start()
    yield running
    running.stop()


@pytest.fixture
def plain(servers: SharedServers) -> ServerProcess:
    return servers.get()


@pytest.fixture(scope="module")
def client_files(folder: TlsFolder) -> tuple[Path, Path]:
    """Certificate and key of a client."""
    made = folder.authority.issue_cert("client.example")
    cert, key = folder.path / "client.pem", folder.path / "client.key"
    made.cert_chain_pems[0].write_to_path(str(cert))
    made.private_key_pem.write_to_path(str(key))
    return cert, key


def test_options_and_variables_name_the_files(
    secure: ServerProcess, folder: TlsFolder, client_files: tuple[Path, Path], tmp_path: Path
) -> None:
    cert, key = client_files
    by_options = Commands(tmp_path, secure)
    files = ("--ca", folder.ca, "--cert", cert, "--cert-key", key)
    by_options("topic", "create", "private", *files)
    variables = {"TALOS_CA": folder.ca, "TALOS_CERT": cert, "TALOS_CERT_KEY": key}
    by_variables = Commands(tmp_path, secure, {name: str(path) for name, path in variables.items()})
    by_variables("produce", "private", stdin="a\n")
    assert by_variables("consume", "private").out == "a\n"
    assert "needs --cert" in by_options.fails("topic", "list", "--cert-key", key)


def test_what_is_wrong_is_named(
    secure: ServerProcess, plain: ServerProcess, folder: TlsFolder, other: TlsFolder, tmp_path: Path
) -> None:
    talos = Commands(tmp_path, secure)
    for ca in ((), ("--ca", other.ca)):
        said = talos.fails("topic", "list", *ca)
        assert "no authority that this client trusts" in said
        assert "TALOS_CA" in said
    assert "wants a certificate of the client" in talos.fails("topic", "list", "--ca", folder.ca)
    mixed = {"TALOS_URL": secure.url.replace("https", "http")}
    talos = Commands(tmp_path, secure, mixed)
    for command in (("topic", "list"), ("consume", "private")):
        said = talos.fails(*command)
        assert "speaks TLS: use https://" in said
        assert "is the server running" not in said
    talos = Commands(tmp_path, plain, {"TALOS_URL": plain.url.replace("http", "https")})
    for command in (("topic", "list"), ("consume", "private")):
        assert "the port does not speak TLS: use http://" in talos.fails(*command)


def test_files_for_tls_with_an_http_address_warn(
    plain: ServerProcess, folder: TlsFolder, tmp_path: Path
) -> None:
    talos = Commands(tmp_path, plain)
    said = talos("topic", "list", "--ca", folder.ca).err
    assert "the address is http" in said
    assert "the address is http" not in talos("topic", "list").err
