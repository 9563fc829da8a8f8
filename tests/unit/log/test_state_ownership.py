"""No module of the log writes the state of an object that another module declares."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import opentalos.log

LOG = Path(opentalos.log.__file__).parent
GUARDED = ("partition", "maintenance", "log_store.py", "metering")
# Sums that the hot path keeps where they are read, so that a put costs no further call.
SHARED_SUMS = {"context.pending_bytes", "self.context.pending_bytes"}
SHARED_SUMS |= {"tenant.pending_bytes", "self.tenant.pending_bytes"}
SHARED_SUMS |= {"topic.pending_bytes", "self.topic.pending_bytes"}
SHARED_SUMS |= {"lane.pending_bytes", "self.lane.pending_bytes"}
# Plain counters for metrics; no decision is made from them.
COUNTERS = re.compile(r"(self\._?)?(context\.)?(counters|traffic)\.")


def modules() -> Iterator[Path]:
    for name in GUARDED:
        path = LOG / name
        yield from (path.rglob("*.py") if path.is_dir() else [path])


def declared_slots(tree: ast.Module) -> set[str]:
    """Attributes that the module's own classes declare."""
    return {
        constant.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__slots__"
        for constant in ast.walk(node.value)
        if isinstance(constant, ast.Constant) and isinstance(constant.value, str)
    }


def targets(node: ast.AST) -> Iterator[ast.expr]:
    found = node.targets if isinstance(node, ast.Assign) else []
    if isinstance(node, ast.AugAssign | ast.AnnAssign):
        found = [node.target]
    for target in found:
        yield from target.elts if isinstance(target, ast.Tuple) else [target]


def foreign_writes(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    own = declared_slots(tree)
    for node in ast.walk(tree):
        for target in targets(node):
            if not isinstance(target, ast.Attribute) or ast.unparse(target.value) == "self":
                continue
            text = ast.unparse(target)
            if text in SHARED_SUMS or COUNTERS.match(text) or target.attr in own:
                continue
            yield f"{path.relative_to(LOG)}:{node.lineno}: {text}"  # type: ignore[attr-defined]


def test_state_changes_by_methods_of_its_owner() -> None:
    assert [line for path in modules() for line in foreign_writes(path)] == []


def test_the_check_sees_a_foreign_write(tmp_path: Path) -> None:
    module = LOG / "partition" / "jobs.py"
    tree = ast.parse(module.read_text() + "\nwriter.state = 1\n")
    assert "writer.state" in [ast.unparse(t) for node in ast.walk(tree) for t in targets(node)]
