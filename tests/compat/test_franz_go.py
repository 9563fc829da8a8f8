"""franz-go's own tests of its client against our server: those of the list pass.

They run unmodified: their way to log in is a certificate, so the port has TLS, and theirs to know
SCRAM is the same port once more.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts.fetch_franz_go import PROGRAM, REMEDY, current
from tests.e2e.rest.client import rest
from tests.server_process import ServerProcess
from tests.tls_files import TlsFolder
from tests.waiting import completed

ALLOWED = (Path(__file__).parent / "franz_go" / "allow.txt").read_text().split()
OUTCOME = re.compile(r"^--- (PASS|FAIL|SKIP): (\w+)", re.MULTILINE)
SHOWN_CHARACTERS = 8_000
RECORDS = 3_000  # that its groups pass on, in each form of a group
PARTITIONS_MAX = 4  # of its topics


@pytest.fixture
def folder(tmp_path: Path) -> TlsFolder:
    return TlsFolder(tmp_path / "tls")


@pytest.fixture
def server(tmp_path: Path, folder: TlsFolder) -> Iterator[ServerProcess]:
    section = folder.section(client_ca_file=str(folder.ca), client_principals="dns=*.example")
    process = ServerProcess(tmp_path / "server", section + "client_optional = true\n").start()
    yield process
    process.kill()


def client_files(folder: TlsFolder) -> tuple[Path, Path]:
    """Certificate and key of the principal ``client``."""
    issued = folder.authority.issue_cert("client.example")
    cert, key = folder.path / "client.pem", folder.path / "client.key"
    cert.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    return cert, key


def test_its_own_tests_pass(server: ServerProcess, folder: TlsFolder) -> None:
    assert current(), f"the tests of franz-go are not built: {REMEDY}"
    made = rest(server, "POST", "principals", {"id": "client"}, trust=folder.trust())
    assert made.status == 201
    address = json.loads((server.data / "server.json").read_text())["kafka"]
    cert, key = client_files(folder)
    environment = os.environ | {
        "KGO_SEEDS": address,
        "KGO_TEST_TLS": f"ca:{folder.ca},cert:{cert},key:{key}",
        "KGO_TEST_RF": "1",
        "KGO_TEST_RECORDS": str(RECORDS),
        "KGO_TEST_MAX_TOPIC_PARTS": str(PARTITIONS_MAX),
        "KGO_LOG_LEVEL": "none",
    }
    command = [str(PROGRAM), "-test.v", "-test.timeout=0"]
    command += [f"-test.run=^({'|'.join(ALLOWED)})$"]
    done = completed(command, cwd=folder.path, env=environment, stdin=subprocess.DEVNULL)
    outcomes = {name: outcome for outcome, name in OUTCOME.findall(done.stdout)}
    said = done.stdout[-SHOWN_CHARACTERS:] + done.stderr[-SHOWN_CHARACTERS:]
    assert outcomes == dict.fromkeys(ALLOWED, "PASS"), said + server.stderr()
    assert done.returncode == 0, said
    sys.stdout.write(f"| franz-go: {len(ALLOWED)} of its own tests\n")
