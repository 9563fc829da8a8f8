"""Where schemas are found."""

from pathlib import Path

import pytest

from opentalos.model.errors import ConfigError
from opentalos.sdk.arrow.schemas.schema_sources import (
    SCHEMA_BYTES_MAX,
    SCHEMAS_MAX,
    SchemaSource,
    resolved,
)


def test_a_schema_is_given_or_in_a_file_or_looked_up(tmp_path: Path) -> None:
    file = tmp_path / "any.txt"
    file.write_bytes(b"in a file")
    found = resolved(
        {"v1": "text", "v2": b"bytes", "v3": file, "v4": lambda name: f"{name}?", None: "without"},
        ".avsc",
    )
    assert found == {
        "v1": b"text",
        "v2": b"bytes",
        "v3": b"in a file",
        "v4": b"v4?",
        None: b"without",
    }


def test_a_folder_has_a_file_for_each_fingerprint(tmp_path: Path) -> None:
    for name in ("v1.avsc", "v2.avsc", "v3.desc", "notes.txt"):
        (tmp_path / name).write_text(f"of {name}")
    assert resolved(tmp_path, ".avsc") == {"v1": b"of v1.avsc", "v2": b"of v2.avsc"}
    with pytest.raises(ConfigError, match=r"has no file \.json"):
        resolved(tmp_path, ".json")
    with pytest.raises(ConfigError, match=r"cannot read the folder of schemas .*No such file"):
        resolved(tmp_path / "none", ".avsc")


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("", "there is no schema 'v1': ''"),
        (lambda _: None, "there is no schema 'v1': None"),
        (Path("no-such-file.avsc"), "cannot read the schema 'v1': no-such-file.avsc: No such file"),
        ("x" * (SCHEMA_BYTES_MAX + 1), "'v1' has 1048577 bytes, at most 1048576"),
    ],
)
def test_a_schema_that_is_missing_or_too_large_is_refused(source: SchemaSource, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        resolved({"v1": source}, ".avsc")


def test_a_large_file_is_not_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "v1.avsc"
    with file.open("wb") as out:
        out.truncate(1 << 40)
    with pytest.raises(ConfigError, match="'v1' has 1048577 bytes"):
        resolved(tmp_path, ".avsc")


def test_the_number_of_schemas_is_bounded() -> None:
    names: list[str | None] = [f"v{number}" for number in range(SCHEMAS_MAX + 1)]
    with pytest.raises(ConfigError, match="1001 schemas are given, at most 1000"):
        resolved(dict.fromkeys(names, "x"), ".avsc")
