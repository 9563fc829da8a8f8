"""What may be compiled: leaves exist, and nothing interpreted inherits from them.

``scripts/compile_leaves.py --test`` compiles them and runs their tests; a test lane does that.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts import compile_leaves as script
from scripts.compile_leaves import LEAVES, ROOT, TESTED_BY, Missing

PACKAGE = ROOT / "src" / "opentalos"
# mypyc leaves these as Python made them, so anything may inherit from them.
PLAIN = {"NamedTuple", "Protocol", "Enum", "IntEnum"}


def classes(path: Path) -> Iterator[ast.ClassDef]:
    return (
        node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)
    )


def compiled_classes() -> dict[str, str]:
    """``module.Class`` of every native class to its leaf."""
    found = {}
    for leaf in LEAVES:
        module = "opentalos." + leaf.removesuffix(".py").replace("/", ".")
        for node in classes(PACKAGE / leaf):
            if not PLAIN & {ast.unparse(parent) for parent in node.bases}:
                found[f"{module}.{node.name}"] = leaf
    return found


def imported(tree: ast.Module) -> dict[str, str]:
    """Names that a module imports to ``module.Name``."""
    return {
        name.asname or name.name: f"{node.module}.{name.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }


def test_every_leaf_and_its_tests_exist() -> None:
    assert [leaf for leaf in LEAVES if not (PACKAGE / leaf).is_file()] == []
    assert [path for path in TESTED_BY if not (ROOT / "tests" / "unit" / path).exists()] == []


def test_no_interpreted_class_inherits_from_a_compiled_one() -> None:
    native = compiled_classes()
    assert "opentalos.gateway.http.connection.HttpConnection" in native
    found = []
    for path in PACKAGE.rglob("*.py"):
        if str(path.relative_to(PACKAGE)) in LEAVES:
            continue
        names = imported(ast.parse(path.read_text()))
        for node in classes(path):
            parents = {names.get(ast.unparse(parent), "") for parent in node.bases}
            found += [f"{path.name}: {node.name}({parent})" for parent in parents & set(native)]
    assert found == [], "Python refuses this when the class is first used"


@pytest.mark.parametrize("missing", [True, False])
def test_if_possible_forgives_a_missing_tool_alone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    missing: bool,
) -> None:
    def need_tools() -> None:
        if missing:
            raise Missing("no C compiler")

    (tmp_path / "src" / "opentalos").mkdir(parents=True)
    monkeypatch.setattr(script, "SOURCES", tmp_path / "src")
    monkeypatch.setattr(script, "need_tools", need_tools)
    monkeypatch.setattr(script, "BUILD", "raise SystemExit('leaf.py:1: error')")
    monkeypatch.setattr(sys, "argv", ["x", str(tmp_path / "made"), "--if-possible"])
    assert script.main() == (0 if missing else 1)
    said = "no C compiler" if missing else "mypyc failed:\nleaf.py:1: error"
    assert capsys.readouterr().out == f"| leaves: not compiled: {said}\n"
