"""What importing the SDK brings in, and what would break on another system."""

import ast
import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import opentalos

PACKAGE = Path(opentalos.__file__).parent
CLIENT_SIDE = ("sdk", "model", "wire")
# Modules of the standard library and names in them that only Unix has.
UNIX_MODULES = {"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty", "uvloop"}
UNIX_NAMES = {"fork", "geteuid", "getuid", "killpg", "register_at_fork", "setsid", "sync"}
HEAVY = {"aiohttp", "pyarrow", "numpy", "jpype", "kazoo", "click", "httptools", "uvloop"}
PUBLIC = [
    "opentalos.sdk",
    *(f"opentalos.sdk.{name}" for name in ("aio", "arrow", "errors", "stream", "tables")),
    *(f"opentalos.sdk.aio.{name}" for name in ("stream", "tables")),
]
# Their low-level calls take the protocol's own structs.
LOW_LEVEL = {"opentalos.sdk.Client", "opentalos.sdk.aio.Client"}
LOADED = """
import sys
import opentalos.sdk, opentalos.sdk.aio
print("\\n".join(sys.modules))
"""


def test_importing_the_sdk_loads_no_server_and_nothing_heavy() -> None:
    command = [sys.executable, "-W", "error", "-c", LOADED]
    loaded = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    ours = {name.split(".")[1] for name in loaded if name.startswith("opentalos.")}
    assert ours == {"sdk", "model", "wire"}
    assert not HEAVY & {name.partition(".")[0] for name in loaded}


def test_the_package_is_typed() -> None:
    assert (PACKAGE / "py.typed").exists()


def public_names() -> dict[str, object]:
    """Every name that a public module lists, by module and name."""
    modules = {name: importlib.import_module(name) for name in PUBLIC}
    return {
        f"{name}.{public}": getattr(module, public)
        for name, module in modules.items()
        for public in module.__all__
    }


def classes_of(hint: Any) -> Iterator[type]:
    """The classes that an annotation names."""
    if inspect.isclass(hint) and not get_args(hint):
        yield hint
    for part in get_args(hint):
        yield from (
            [found for each in part for found in classes_of(each)]
            if isinstance(part, list)
            else classes_of(part)
        )


def annotated(cls: type) -> Iterator[tuple[str, type]]:
    """The classes in the signatures of a class's public methods, with the method's name."""
    for name, member in inspect.getmembers(cls):
        function = member.fget if isinstance(member, property) else inspect.unwrap(member)
        function = getattr(function, "__func__", function)
        if inspect.isfunction(function) and (name == "__init__" or not name.startswith("_")):
            for hint in get_type_hints(function).values():
                yield from ((f"{cls.__name__}.{name}", found) for found in classes_of(hint))


def test_every_class_in_a_public_signature_is_public() -> None:
    public = {id(found) for found in public_names().values()}
    hidden = {
        (method, found.__name__)
        for place, cls in public_names().items()
        if inspect.isclass(cls) and place not in LOW_LEVEL
        for method, found in annotated(cls)
        if found.__module__.startswith("opentalos.") and id(found) not in public
    }
    assert hidden == set()


def unix_only(tree: ast.Module) -> list[str]:
    """What only Unix has; a name that hasattr asked for before is fine."""
    asked = {
        node.args[1].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "hasattr"
        and isinstance(node.args[1], ast.Constant)
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names if name.name in UNIX_MODULES]
        elif isinstance(node, ast.ImportFrom) and node.module in UNIX_MODULES:
            found.append(node.module)
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in ("os", "signal")
            and node.attr in UNIX_NAMES - asked
        ):
            found.append(f"{node.value.id}.{node.attr}")
    return found


def test_the_client_side_runs_on_every_system() -> None:
    problems = {
        str(path.relative_to(PACKAGE)): found
        for folder in CLIENT_SIDE
        for path in (PACKAGE / folder).rglob("*.py")
        if (found := unix_only(ast.parse(path.read_text())))
    }
    assert problems == {}


def test_the_check_sees_what_only_unix_has() -> None:
    assert unix_only(ast.parse("import fcntl")) == ["fcntl"]
    assert unix_only(ast.parse("import os\nos.fork()")) == ["os.fork"]
    guarded = "import os\nif hasattr(os, 'register_at_fork'):\n    os.register_at_fork()"
    assert unix_only(ast.parse(guarded)) == []
