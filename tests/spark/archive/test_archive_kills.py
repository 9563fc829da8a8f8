"""The archive under real kills of its driver; OPENTALOS_KILLS sets how many."""

import os
import random
from pathlib import Path

import pytest
from tests.spark.archived import archived, each_once
from tests.spark.conftest import TalosServer
from tests.spark.pipeline_process import PipelineProcess
from tests.waiting import elapse

from opentalos.sdk import SimpleProducer, TalosAdmin

TOPIC = "killed-archive"
KILLS = int(os.environ.get("OPENTALOS_KILLS", "2"))
ROWS = 5_000  # put before each kill
BATCH = 1_000  # rows of a trigger, so that a kill falls into some batch
SEED = 20_240_601
LATER_S = 4.0  # at most from the first batch of a driver to its kill


@pytest.mark.timeout(900 + 120 * KILLS)  # twenty in ``make faults``
def test_each_message_is_archived_once_over_kills(server: TalosServer, tmp_path: Path) -> None:
    dice = random.Random(SEED)
    with TalosAdmin(server.config) as admin:
        admin.topics.create(TOPIC, partitions=1)
    argv = ["run", "archive", "-o", f"archive.topics={TOPIC}", "--trigger", "0"]
    argv += ["--messages-per-trigger", str(BATCH)]
    expected = 0
    with SimpleProducer(server.config, TOPIC, 0) as producer:
        for _ in range(KILLS):
            producer.put([b"x" * 100] * ROWS)
            expected += ROWS
            run = PipelineProcess(server, tmp_path, *argv)
            try:
                run.wait_for("archive  batch ")
                elapse("the kill falls anywhere in a batch", dice.uniform(0.0, LATER_S))
            finally:
                run.kill()
        last = PipelineProcess(server, tmp_path, *argv, "--available-now")
    try:
        assert last.wait() == 0, last.said()
    finally:
        last.kill()
    assert archived(tmp_path / "archive") == each_once({0: expected})
