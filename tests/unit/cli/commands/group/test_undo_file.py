"""The undo file of a reset."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from opentalos.cli.commands.group import undo_file
from opentalos.cli.commands.group.undo_file import Checkpoints
from opentalos.model.errors import ConfigError

SAVED = Checkpoints("root#orders#abc", "billing", {10: 5, 2: -1})


def test_an_undo_file_round_trips(tmp_path: Path) -> None:
    undo_file.write_new(tmp_path / "undo", SAVED)
    assert undo_file.read(tmp_path / "undo") == SAVED


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "undo").write_text("mine")
    with pytest.raises(ConfigError, match="already exists"):
        undo_file.write_new(tmp_path / "undo", SAVED)
    assert (tmp_path / "undo").read_text() == "mine"


def test_a_full_disk_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ConfigError, match="No space left"):
        undo_file.write_new(tmp_path / "undo", SAVED)
    assert list(tmp_path.iterdir()) == []


def good() -> dict[str, object]:
    return {"version": 1, "topic": "t", "group": "g", "checkpoints": {"0": 1}}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"version": 2}, "version 2, expected 1"),
        ({"checkpoints": {}}, "checkpoints must map"),
        ({"checkpoints": {"0": -2}}, "checkpoints must map"),
        ({"checkpoints": {"0": "1"}}, "checkpoints must map"),
        ({"checkpoints": {"x": 1}}, "invalid literal"),
        ({"checkpoints": [1]}, "is not an undo file"),
        ({"topic": None}, "must be strings"),
    ],
)
def test_an_invalid_undo_file_is_rejected(
    tmp_path: Path, change: dict[str, object], says: str
) -> None:
    path = tmp_path / "undo"
    path.write_text(json.dumps(good() | change))
    with pytest.raises(ConfigError, match=says):
        undo_file.read(path)


@pytest.mark.parametrize("text", ["", "[]", "{}", "\xff"])
def test_a_file_that_is_not_an_undo_file_is_rejected(tmp_path: Path, text: str) -> None:
    (tmp_path / "undo").write_text(text)
    with pytest.raises(ConfigError, match="is not an undo file"):
        undo_file.read(tmp_path / "undo")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*undo: No such file"):
        undo_file.read(tmp_path / "undo")


def test_names_of_two_resets_differ() -> None:
    first = undo_file.default_path("CLx/orders", "billing", datetime(2026, 3, 1, tzinfo=UTC))
    assert first.name == "talos-undo-CLx_orders-billing-20260301T000000.000000Z.json"
    other = undo_file.default_path("orders", "bob/billing", datetime(2026, 3, 1, tzinfo=UTC))
    assert other.name == "talos-undo-orders-bob_billing-20260301T000000.000000Z.json"
