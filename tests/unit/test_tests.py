"""What holds for tests themselves: each can fail, and looks into its own subject only."""

import ast
from functools import cache
from pathlib import Path

from tests.unit.source_tree import ROOT, dotted, functions, python_files, shown, tree_of

# Methods of NamedTuple and os that begin with an underscore without being private.
PUBLIC_UNDERSCORES = {"_replace", "_asdict", "_fields", "_exit"}


@cache
def files_of_tests() -> tuple[Path, ...]:
    return tuple(path for path in python_files() if path.is_relative_to(ROOT / "tests"))


@cache
def called_names(node: ast.AST) -> frozenset[str]:
    calls = (part.func for part in ast.walk(node) if isinstance(part, ast.Call))
    return frozenset(dotted(function).rsplit(".", 1)[-1] for function in calls)


def claims(node: ast.AST) -> bool:
    """Whether a function asserts, expects an error, or fails by itself."""
    return any(isinstance(part, ast.Assert | ast.Raise) for part in ast.walk(node)) or bool(
        called_names(node) & {"raises", "warns", "fail", "check", "until"}
    )


@cache
def claiming_helpers() -> frozenset[str]:
    """Names of functions that claim something themselves or by what they call.

    Of several with one name, one that does is enough.
    """
    helpers = [
        (node.name, called_names(node), claims(node))
        for path in files_of_tests()
        for node in functions(tree_of(path))
        if not node.name.startswith("test_")
    ]
    found = {name for name, _, claiming in helpers if claiming}
    while True:
        more = {name for name, called, _ in helpers if called & found} - found
        if not more:
            return frozenset(found)
        found |= more


def test_every_test_can_fail() -> None:
    empty = [
        shown(path, node.lineno, f"{node.name} asserts nothing")
        for path in files_of_tests()
        for node in functions(tree_of(path))
        if node.name.startswith("test_")
        and not any("fixture" in dotted(mark) for mark in node.decorator_list)
        and not claims(node)
        and not called_names(node) & claiming_helpers()
    ]
    assert empty == []


def private_depth(node: ast.expr) -> int:
    """How many private names a chain such as ``a._b.c._d`` goes through."""
    depth = 0
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        if isinstance(node, ast.Attribute):
            name = node.attr
            depth += (
                name.startswith("_")
                and not name.startswith("__")
                and name not in PUBLIC_UNDERSCORES
            )
        node = node.func if isinstance(node, ast.Call) else node.value
    return depth


def test_no_test_looks_through_a_private_member_into_another() -> None:
    deep = [
        shown(path, node.lineno, ast.unparse(node))
        for path in files_of_tests()
        if "unit" in path.parts
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and private_depth(node) > 1
    ]
    assert deep == []
