"""No module of the core writes the attributes of another module's objects."""

import ast

from tests.unit.source_tree import SOURCE, shown, source_files, tree_of

# Where the rule holds; the log has rules of its own (tests/unit/log/partition/test_state.py).
GUARDED = ("broker", "group", "catalog", "placement", "sds")
# Objects that only count: whoever does the work adds to them.
COUNTED = {"counters", "counts", "figures", "traffic", "counted"}
# Left as they are: a counter on the put path, and a composition that switches its own part.
EXEMPT = {"catalog/quota/throttle.py", "broker/cluster/cluster.py"}


def attributes_of(tree: ast.Module) -> set[str]:
    """Attributes that classes of the module define: by assignment to self or by annotation."""
    found = set()
    for owner in ast.walk(tree):
        if not isinstance(owner, ast.ClassDef):
            continue
        for node in ast.walk(owner):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                if isinstance(node.value, ast.Name) and node.value.id == "self":
                    found.add(node.attr)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
    return found


def test_no_module_writes_the_state_of_anothers_objects() -> None:
    foreign = []
    for path in source_files():
        name = str(path.relative_to(SOURCE))
        if not name.startswith(GUARDED) or name in EXEMPT:
            continue
        own = attributes_of(tree_of(path))
        for node in ast.walk(tree_of(path)):
            if not (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)):
                continue
            owner = ast.unparse(node.value)
            if owner in ("self", "cls") or owner.rsplit(".", 1)[-1].strip("_") in COUNTED:
                continue
            if node.attr not in own:
                foreign.append(shown(path, node.lineno, ast.unparse(node)))
    assert foreign == []
