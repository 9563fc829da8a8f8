"""Tests wait by ``tests/waiting.py`` alone: no sleep, no deadline, no limit of their own."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeGuard

import pytest
from tests.unit.source_tree import ROOT, Problems, dotted, python_files, shown, tree_of

TESTS = ROOT / "tests"
ABOUT_TIME = "# the claim is about time"
# Programs that run without this repository on their path, or are what a test pauses and kills.
OTHER_PROGRAMS = (
    "tests/compat/sdk_programs",
    "tests/compat/sds_programs",
    "tests/e2e/sdk/programs",
)
OTHER_MODULES = {"tests/waiting.py"}
CLOCKS = {"time.monotonic", "time.time", "time.perf_counter", "monotonic"}
PROGRAM_CALLS = {"run", "check_call", "check_output", "call", "communicate"}


def waiting_files() -> Iterator[Path]:
    for path in python_files():
        name = str(path.relative_to(ROOT))
        if path.is_relative_to(TESTS) and name not in OTHER_MODULES:
            if not name.startswith(OTHER_PROGRAMS):
                yield path


def in_virtual_time(path: Path) -> bool:
    return path.relative_to(TESTS).parts[0] in ("unit", "simulation")


def is_clock(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and (
        dotted(node.func) in CLOCKS or dotted(node.func).endswith("loop.time")
    )


def makes_deadline(node: ast.AST) -> TypeGuard[ast.Compare | ast.BinOp]:
    """Compares with a clock, or adds something to what it shows."""
    if isinstance(node, ast.Compare):
        return any(map(is_clock, ast.walk(node)))
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and is_clock(node.left)


def is_zero(call: ast.Call) -> bool:
    return bool(call.args) and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0


def nothing_sleeps_by_itself() -> Problems:
    for path in waiting_files():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call):
                name = dotted(node.func)
                sleeps = name == "time.sleep" or (
                    name == "asyncio.sleep" and not in_virtual_time(path) and not is_zero(node)
                )
                if sleeps:
                    yield shown(path, node.lineno, f"{name}: use eventually, stays or elapse")


def no_deadline_is_made_by_hand() -> Problems:
    for path in waiting_files():
        if in_virtual_time(path):
            continue
        lines = path.read_text().splitlines()
        for node in ast.walk(tree_of(path)):
            if makes_deadline(node) and ABOUT_TIME not in lines[node.lineno - 1]:
                yield shown(path, node.lineno, "a deadline: use eventually or limit_s()")


def programs_end_by_the_shared_limit() -> Problems:
    for path in waiting_files():
        for node in ast.walk(tree_of(path)):
            if (
                not isinstance(node, ast.Call)
                or dotted(node.func).split(".")[-1] not in PROGRAM_CALLS
            ):
                continue
            for given in node.keywords:
                if given.arg == "timeout" and isinstance(given.value, ast.Constant | ast.Name):
                    yield shown(path, node.lineno, "a limit of its own: use limit_s()")


RULES = (
    nothing_sleeps_by_itself,
    no_deadline_is_made_by_hand,
    programs_end_by_the_shared_limit,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_tests_wait_in_one_way(rule: Callable[[], Problems]) -> None:
    problems = list(rule())
    assert problems == [], "\n" + "\n".join(problems)
