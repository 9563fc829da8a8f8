"""The files of the repository as the house rules see them, parsed once."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE = ROOT / "src" / "opentalos"

TEXT_SUFFIXES = {".py", ".md", ".toml", ".c", ".lua", ".yml", ".yaml", ".cfg", ".sh", ".in", ""}
FOREIGN_FOLDERS = {"_generated", "idl", "golden", "__pycache__", "out"}
TOP_FOLDERS = ("src", "tests", "scripts", "bench", "docs", "examples", ".ci")
TOP_FILES = (
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
    *("Makefile", "pyproject.toml"),
)

Problems = Iterator[str]


def shown(path: Path, line: int, rule: str) -> str:
    return f"{path.relative_to(ROOT)}:{line}: {rule}"


def ours(path: Path) -> bool:
    return not FOREIGN_FOLDERS & set(path.relative_to(ROOT).parts)


@cache
def python_files() -> tuple[Path, ...]:
    folders = ("src", "tests", "scripts", "bench", "examples")
    return tuple(
        path for name in folders for path in sorted((ROOT / name).rglob("*.py")) if ours(path)
    )


@cache
def source_files() -> tuple[Path, ...]:
    return tuple(path for path in python_files() if path.is_relative_to(SOURCE))


@cache
def text_files() -> tuple[Path, ...]:
    found = [ROOT / name for name in TOP_FILES if (ROOT / name).exists()]
    for name in TOP_FOLDERS:
        found += [
            path
            for path in sorted((ROOT / name).rglob("*"))
            if path.is_file() and path.suffix in TEXT_SUFFIXES and ours(path)
        ]
    return tuple(found)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def package_of(path: Path) -> str:
    """First folder below opentalos; empty for a file directly in it."""
    parts = path.relative_to(SOURCE).parts
    return parts[0] if len(parts) > 1 else ""


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def dotted(node: ast.AST) -> str:
    """``a.b.c`` for a chain of names, else the last attribute or nothing."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}".lstrip(".")
    return node.id if isinstance(node, ast.Name) else ""


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [name.name for name in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [node.module]
    return []


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
