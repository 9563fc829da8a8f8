"""The notebook runs in a kernel of Jupyter, from its first cell to its last, against a real server.

In the repository it has no outputs: they would be those of one machine.
"""

import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from tests.spark.conftest import TalosServer
from tests.spark.java_classes import quick_environment
from tests.waiting import limit_s

from opentalos.sdk import Message, SimpleProducer, TalosAdmin

NOTEBOOK = Path(__file__).resolve().parents[3] / "examples" / "first_look.ipynb"
MINUTE_MS = 60_000
BEGIN_MS = 29_000_000 * MINUTE_MS
PNG = b"\x89PNG"


def put(server: TalosServer) -> None:
    """In each of three minutes, 3 messages of ``a`` in partition 0, 2 of ``b`` in partition 1."""
    with TalosAdmin(server.config) as admin:
        admin.topics.create("first-look", partitions=2)
    with SimpleProducer(server.config, "first-look") as producer:
        for minute in range(3):
            at = BEGIN_MS + minute * MINUTE_MS
            messages = [Message(b"1234", "a", create_ms=at)] * 3
            producer.put(messages, partition=0)
            producer.put([Message(b"12", "b", create_ms=at)] * 2, partition=1)


def lines_of(cell: Any) -> list[str]:
    streams = [output.text for output in cell.outputs if output.output_type == "stream"]
    return "".join(streams).splitlines()


async def test_the_notebook_answers_what_it_asks(
    server: TalosServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(server)
    settings = {"TALOS_URL": server.url, "TALOS_KEY": server.key, "TALOS_TOPIC": "first-look"}
    folders = ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    settings |= {name: str(tmp_path / name.lower()) for name in folders}
    for name, text in (settings | quick_environment()).items():
        monkeypatch.setenv(name, text)
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    await NotebookClient(notebook, timeout=int(limit_s()), kernel_name="python3").async_execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    offsets, pandas, chart, polars, spark, _ = code
    assert lines_of(offsets) == ["partition 0: offsets 0 to 8", "partition 1: offsets 0 to 5"]
    assert lines_of(pandas) == ["15 messages, 48 bytes"]
    assert lines_of(polars) == ["key a: 9 messages, 36 bytes", "key b: 6 messages, 12 bytes"]
    minutes = [datetime.fromtimestamp(BEGIN_MS / 1000 + 60 * n, UTC) for n in range(3)]
    assert [line for line in lines_of(spark) if line.startswith("minute ")] == [
        f"minute {minute:%H:%M}: 5 messages, 16 bytes" for minute in minutes
    ]
    pictures = [output.data["image/png"] for output in chart.outputs if "data" in output]
    assert [base64.b64decode(picture)[:4] for picture in pictures] == [PNG]


def test_the_notebook_is_stored_without_outputs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(code) == 6
    assert [(cell.outputs, cell.execution_count) for cell in code] == [([], None)] * len(code)
