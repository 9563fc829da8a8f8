"""The tree says where things are: folders one can survey, and a unit test where its subject is."""

from collections.abc import Iterator
from pathlib import Path

from tests.unit.source_tree import ROOT, SOURCE

SIBLINGS_MAX = 13  # modules and folders of one folder; above it a reader searches instead of looks
UNIT = ROOT / "tests" / "unit"
# The packages themselves; one module or folder a technology; one folder a pipeline.
WIDE = {SOURCE, SOURCE / "adapters", SOURCE / "pipelines"}


def folders(root: Path) -> Iterator[Path]:
    for path in (root, *sorted(root.rglob("*"))):
        if path.is_dir() and path.name not in ("__pycache__", "_generated"):
            yield path


def siblings(folder: Path) -> list[str]:
    return sorted(
        path.name
        for path in folder.iterdir()
        if path.name != "__pycache__"
        and (path.is_dir() or (path.suffix == ".py" and path.stem != "__init__"))
    )


def test_no_folder_is_a_long_flat_list() -> None:
    wide = {
        str(folder.relative_to(ROOT)): len(siblings(folder))
        for folder in folders(SOURCE)
        if folder not in WIDE and len(siblings(folder)) > SIBLINGS_MAX
    }
    assert wide == {}


def test_unit_tests_mirror_the_source() -> None:
    strange = [
        str(folder.relative_to(ROOT))
        for folder in folders(UNIT)
        if not any((root / folder.relative_to(UNIT)).is_dir() for root in (SOURCE, ROOT))
    ]
    assert strange == []


def test_a_test_of_one_module_lies_where_the_module_does() -> None:
    modules: dict[str, list[Path]] = {}
    for path in SOURCE.rglob("*.py"):
        modules.setdefault(path.stem, []).append(path.parent.relative_to(SOURCE))
    astray = [
        str(path.relative_to(ROOT))
        for path in UNIT.rglob("test_*.py")
        for homes in [modules.get(path.stem.removeprefix("test_"), [])]
        if len(homes) == 1
        and path.parent.relative_to(UNIT).parts[:1] == homes[0].parts[:1]
        and path.parent.relative_to(UNIT) != homes[0]
    ]
    assert astray == []
