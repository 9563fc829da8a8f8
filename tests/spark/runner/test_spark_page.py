"""Spark's page of a run: reachable, and its jobs say what a batch has read and how far it is."""

import json
import re
import urllib.request
from pathlib import Path
from typing import Any

from tests.spark.conftest import TalosServer
from tests.spark.pipeline_process import PipelineProcess
from tests.waiting import eventually, limit_s

from opentalos.sdk import SimpleProducer, TalosAdmin

TOPIC = "described"


def fetched(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=limit_s()) as reply:
        return json.load(reply)


def test_jobs_on_sparks_page_have_rows_and_lag(server: TalosServer, tmp_path: Path) -> None:
    with TalosAdmin(server.config) as admin:
        admin.topics.create(TOPIC, partitions=1)

    def put(count: int) -> None:
        with SimpleProducer(server.config, TOPIC, 0) as producer:
            producer.put([b"x"] * count)

    put(50)
    argv = ["run", "archive", "-o", f"archive.topics={TOPIC}", "--trigger", "1"]
    argv += ["--messages-per-trigger", "30"]
    argv += ["--conf", "spark.ui.enabled=true", "--conf", "spark.ui.port=0"]
    run = PipelineProcess(server, tmp_path, *argv)
    try:
        run.wait_for("Spark UI: ")
        found = re.search(r"Spark UI: (http://\S+)", run.said())
        assert found is not None
        page = f"{found[1]}/api/v1/applications"

        def descriptions() -> set[str]:
            [application] = fetched(page)
            jobs = fetched(f"{page}/{application['id']}/jobs")
            return {job.get("description", "") for job in jobs}

        eventually(
            "a job of the second batch is on the page",
            lambda: any("batch 1," in text for text in descriptions()),
            state=run.said,
        )
        assert "archive: batch 0, 30 rows" in descriptions()
        assert "archive: batch 1, 20 rows, lag 20 before it" in descriptions()
        [application] = fetched(page)
        assert application["attempts"][0]["completed"] is False
        with urllib.request.urlopen(f"{found[1]}/StreamingQuery/", timeout=limit_s()) as reply:
            assert "archive" in reply.read().decode()
    finally:
        run.kill()
