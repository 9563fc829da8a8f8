"""kafka-python's own integration tests against our server: those of the list pass."""

import json
import os
import re
import sys
from pathlib import Path

from scripts.fetch_kafka_tests import FOLDER
from tests.server_process import ROOT_KEY, ServerProcess
from tests.waiting import completed

HERE = Path(__file__).parent / "kafka_python"
ALLOWED = (HERE / "allow.txt").read_text().split()
VERSION = "4.2"  # of a Kafka whose requests we serve, as that client infers it


def test_its_own_tests_pass(tmp_path: Path) -> None:
    (tmp_path / "servers" / VERSION / "kafka-bin").mkdir(parents=True)  # where it looks for Kafka
    server = ServerProcess(tmp_path / "server").start()
    try:
        address = json.loads((server.data / "server.json").read_text())["kafka"]
        environment = {
            **os.environ,
            "KAFKA_URI": f"kafka://{address}",
            "KAFKA_VERSION": VERSION,
            "KAFKA_LOGIN": f"{ROOT_KEY.key_id}:{ROOT_KEY.secret}",
            "PROJECT_ROOT": str(tmp_path),
            "PYTHONPATH": os.pathsep.join((str(FOLDER), str(HERE))),
        }
        command = [sys.executable, "-m", "pytest", "-q", "-p", "with_login", "-p", "no:opentalos"]
        command += ["-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={FOLDER}"]
        command += [f"{FOLDER}/test/integration/{name}" for name in ALLOWED]
        done = completed(command, cwd=FOLDER, env=environment)
    finally:
        server.kill()
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-2_000:]
    # Its fixtures may say a word as the process ends, after the summary of its tests.
    assert re.search(rf"^{len(ALLOWED)} passed", done.stdout, re.MULTILINE), done.stdout[-2_000:]
