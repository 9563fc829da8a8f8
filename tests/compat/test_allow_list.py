"""The list of what works with foreign clients only grows."""

import ast
from pathlib import Path

HERE = Path(__file__).parent


def cases_in(path: Path) -> set[str]:
    names = (node.name for node in ast.parse(path.read_text()).body if hasattr(node, "name"))
    return {f"{path.stem}::{name}" for name in names if name.startswith("test_")}


def test_every_test_of_the_allow_list_exists_and_every_test_is_on_it() -> None:
    listed = set((HERE / "allow.txt").read_text().split())
    found = set().union(*(cases_in(path) for path in HERE.glob("test_*.py")))
    assert sorted(listed - found) == [], "these worked once and are gone"
    assert sorted(found - listed) == [], "add these to allow.txt"


def test_no_test_of_a_foreign_client_may_be_left_out() -> None:
    for path in HERE.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                assert node.attr not in ("skip", "skipif", "xfail"), f"{path.name}:{node.lineno}"
