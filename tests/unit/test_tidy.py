"""House rules that no other tool checks. Each failure names file, line and rule."""

import ast
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import pytest
from tests.unit.source_tree import (
    ROOT,
    SOURCE,
    Problems,
    dotted,
    functions,
    imported,
    module_name,
    package_of,
    python_files,
    shown,
    source_files,
    text_files,
    tree_of,
)

MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
PARAMETERS_MAX = 6
PUBLIC_METHODS_MAX = 12
PORT_METHODS_MAX = 8
LINE_COLUMNS_MAX = 100
README_LINES_MAX = 120

BANNED_NAMES = {"util", "utils", "common", "helper", "helpers", "misc", "base", "manager"}
CORE = {"model", "wire", "ports", "log", "group", "catalog", "placement", "sds", "broker"}
DOCUMENTED = {"ports", "wire", "broker", "sdk", "testing", "pipelines"}
# Packages where a thread may start: adapters, the synchronous SDK's loop, and the command line.
THREADED = {"adapters", "sdk", "cli"}
# Methods whose names a caller outside prescribes (asyncio.Protocol, httptools): not our interface.
CALLBACKS = {
    "connection_made",
    "connection_lost",
    "data_received",
    "eof_received",
    "pause_writing",
    "resume_writing",
}
# Where the environment may be read: the composition root, and where Java's tools look there.
CONFIGURED = {"server", "cli", "backends", "opentalos.adapters.jvm", "opentalos.adapters.java_home"}
# Called from outside: the command, python -m, and what is shipped for users' own tests and jobs.
ENTRY_MODULES = {"opentalos.cli.main"}
ENTRY_PACKAGES = {"testing", "sdk", "pipelines"}


def modules_are_small() -> Problems:
    for path in python_files():
        lines = len(path.read_text().splitlines())
        if lines > MODULE_LINES_MAX:
            yield shown(path, lines, f"module has {lines} lines, at most {MODULE_LINES_MAX}")


def functions_are_small() -> Problems:
    for path in python_files():
        for node in functions(tree_of(path)):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                rule = f"{node.name} has {lines} lines, at most {FUNCTION_LINES_MAX}"
                yield shown(path, node.lineno, rule)


def parameter_lists_are_short() -> Problems:
    for path in source_files():
        for node in functions(tree_of(path)):
            names = [
                argument.arg
                for argument in node.args.posonlyargs + node.args.args + node.args.kwonlyargs
                if argument.arg not in ("self", "cls")
            ]
            is_command = any("command" in dotted(called(item)) for item in node.decorator_list)
            if len(names) > PARAMETERS_MAX and not is_command:
                rule = f"{node.name} has {len(names)} parameters, at most {PARAMETERS_MAX}"
                yield shown(path, node.lineno, rule)


def called(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def classes_are_small() -> Problems:
    for path in source_files():
        limit = PORT_METHODS_MAX if package_of(path) == "ports" else PUBLIC_METHODS_MAX
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                public = [
                    item
                    for item in node.body
                    if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)
                    and not item.name.startswith(("_", "on_"))
                    and item.name not in CALLBACKS
                    and not any(dotted(mark) == "property" for mark in item.decorator_list)
                ]
                if len(public) > limit:
                    rule = f"{node.name} has {len(public)} public methods, at most {limit}"
                    yield shown(path, node.lineno, rule)


def lines_are_short() -> Problems:
    for path in python_files():
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if len(line) > LINE_COLUMNS_MAX:
                yield shown(path, number, f"{len(line)} columns, at most {LINE_COLUMNS_MAX}")


def names_say_something() -> Problems:
    for path in source_files():
        for part in path.relative_to(SOURCE).with_suffix("").parts:
            bad = BANNED_NAMES & set(part.strip("_").split("_"))
            if bad:
                yield shown(path, 1, f"the name {bad.pop()!r} says nothing")


BANNED_CALLS = {
    "to_thread": THREADED,
    "run_in_executor": THREADED,
    "ThreadPoolExecutor": THREADED,
    "os.urandom": {"adapters", "cli", "server"},
    "datetime.now": {"adapters", "cli"},
    "datetime.utcnow": set(),
    "date.today": set(),
    "time.time": {"adapters", "agent", "cli", "gateway", "server"},
    "os.getenv": CONFIGURED,
    "os.environ.get": CONFIGURED,
}


def the_core_calls_no_clock_thread_or_lot() -> Problems:
    for path in source_files():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call):
                name = dotted(node.func)
                for banned, allowed in BANNED_CALLS.items():
                    if (name == banned or name.endswith(f".{banned}")) and not (
                        {package_of(path), module_name(path)} & allowed
                    ):
                        yield shown(path, node.lineno, f"{banned} is not allowed here")


def threads_start_only_in_adapters() -> Problems:
    for path in source_files():
        if package_of(path) in THREADED:
            continue
        for node in ast.walk(tree_of(path)):
            if not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            for name in imported(node):
                if name.split(".")[0] == "threading" or name == "concurrent.futures":
                    yield shown(path, node.lineno, f"{name} outside adapters")


def no_module_is_dead() -> Problems:
    """Every module is imported, or named for a lazy import, by another one of the package."""
    used: set[str] = set()
    for path in source_files():
        for node in ast.walk(tree_of(path)):
            names = imported(node)
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{item.name}" for item in node.names)]
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                names = [node.value]
            used.update(name for name in names if name != module_name(path))
    for path in source_files():
        name = module_name(path)
        alive = name in used or name in ENTRY_MODULES or package_of(path) in ENTRY_PACKAGES
        if not alive and path.stem not in ("__init__", "__main__"):
            yield shown(path, 1, "no module imports this one")


def imports_form_no_cycle() -> Problems:
    """Also those only for types: ``if TYPE_CHECKING`` hides a cycle but does not open it."""
    modules = {module_name(path).removesuffix(".__init__"): path for path in source_files()}
    imports = {name: _modules_imported(path, modules) for name, path in modules.items()}
    while True:  # drop what imports nothing that is left, and what nothing left imports
        imported_by_some = set().union(*imports.values())
        free = [
            name
            for name, found in imports.items()
            if not found & imports.keys() or name not in imported_by_some
        ]
        if not free:
            break
        for name in free:
            del imports[name]
    for name, found in imports.items():
        inside = sorted(found & imports.keys())
        yield shown(modules[name], 1, f"is in an import cycle by {', '.join(inside)}")


def _modules_imported(path: Path, modules: Mapping[str, Path]) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree_of(path)):
        for name in imported(node):
            names = [name]
            if isinstance(node, ast.ImportFrom):
                parts = [f"{name}.{alias.name}" for alias in node.names]
                names = [part if part in modules else name for part in parts]
            found.update(part for part in names if part in modules)
    return found - {module_name(path).removesuffix(".__init__")}


def packages_and_public_names_have_docstrings() -> Problems:
    for path in source_files():
        tree = tree_of(path)
        if ast.get_docstring(tree) is None and path.read_text().strip():
            yield shown(path, 1, "module without docstring")
        if package_of(path) not in DOCUMENTED or path.stem.startswith("_"):
            continue
        for node in tree.body:
            if (
                isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
                and not node.name.startswith("_")
                and ast.get_docstring(node) is None
            ):
                yield shown(path, node.lineno, f"{node.name} has no docstring")


def matches(pattern: str, rule: str) -> Problems:
    wanted = re.compile(pattern)
    for path in text_files():
        if path == Path(__file__):
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            found = wanted.search(line)
            if found:
                yield shown(path, number, f"{rule}: {found[0]!r}")


def a_todo_names_its_issue() -> Problems:
    return matches(r"\b(TODO|FIXME|XXX|HACK)\b(?!.*#\d+)", "without an issue number")


def no_path_of_one_machine() -> Problems:
    return matches(r"(?<![\w.])/(work|root|Users|home/\w+)/\w+", "a path of one machine")


def no_registry_host() -> Problems:
    hosts = r"pypi\.org|pythonhosted|crates\.io|npmjs|repo1?\.maven|deb\.debian|proxy\.golang"
    return matches(hosts, "a registry's host")


def the_readme_is_short() -> Problems:
    lines = len((ROOT / "README.md").read_text().splitlines())
    if lines > README_LINES_MAX:
        yield shown(ROOT / "README.md", lines, f"{lines} lines, at most {README_LINES_MAX}")


def documents_name_files_that_exist() -> Problems:
    named = re.compile(r"`([\w./-]+/[\w.-]+\.(?:py|md|txt|toml|thrift|c)|[\w-]+\.md)`")
    for path in text_files():
        if path.suffix != ".md":
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for name in named.findall(line):
                places = (ROOT, SOURCE, ROOT / "docs", path.parent)
                if not any((place / name).exists() for place in places):
                    yield shown(path, number, f"{name} does not exist")


def every_page_is_in_the_navigation() -> Problems:
    """Else the site does not build: mkdocs is strict."""
    navigation = (ROOT / "mkdocs.yml").read_text()
    for path in sorted((ROOT / "docs").rglob("*.md")):
        if f" {path.relative_to(ROOT / 'docs').as_posix()}\n" not in navigation:
            yield shown(path, 1, "the page is not in the nav of mkdocs.yml")


# What "Source:" may name: a file of this repository, with a heading or a name in it, or a public
# standard or program in a version.
SOURCE_LINE = re.compile(r"\bSource(?: of [\w ,]+)?:\s(.*)")
CITED_PATH = re.compile(
    r"\b((?:docs|idl|tests|bench|src|deploy)/[\w./-]*\w)(?:#([\w-]+\w)| (\w+))?"
)
PUBLIC_SOURCE = re.compile(r"RFC \d+|(?:Apache Thrift|HBase|JPype|Kafka|ZooKeeper) \d+\.\d+")
PROMISE = re.compile(r"\b[Pp]romises? (I\d+)(?:(?:,| and) (I\d+))*")
HEADING = re.compile(r"^#+ +(.*?) *$", re.MULTILINE)


@cache
def anchors_of(path: Path) -> frozenset[str]:
    """The anchors that the site gives to the headings of a document."""
    titles = (re.sub(r"[^\w\s-]", "", title) for title in HEADING.findall(path.read_text()))
    return frozenset(re.sub(r"[-\s]+", "-", title.strip().lower()) for title in titles)


def faults_of_citation(cited: re.Match[str]) -> Problems:
    name, anchor, word = cited.groups()
    path = ROOT / name
    if not path.exists():
        yield f"{name} does not exist"
    elif anchor and anchor not in anchors_of(path):
        yield f"{name} has no heading #{anchor}"
    elif word and path.suffix == ".thrift" and not re.search(rf"\b{word}\b", path.read_text()):
        yield f"{name} does not define {word}"


def sources_resolve() -> Problems:
    for path in python_files():
        lines = path.read_text().splitlines()
        for number, line in enumerate(lines, 1):
            source = SOURCE_LINE.search(line)
            if source and not (CITED_PATH.search(source[1]) or PUBLIC_SOURCE.search(source[1])):
                yield shown(path, number, "Source names no file here, no standard, no version")
            for cited in CITED_PATH.finditer(line):
                if source or cited[1].endswith(".md"):
                    for fault in faults_of_citation(cited):
                        yield shown(path, number, fault)


def promises_are_written_down() -> Problems:
    written = {anchor.split("-")[0].upper() for anchor in anchors_of(ROOT / "docs" / "promises.md")}
    for path in text_files():
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            for cited in PROMISE.finditer(line):
                for name in re.findall(r"I\d+", cited[0]):
                    if name not in written:
                        yield shown(path, number, f"docs/promises.md has no {name}")


RULES: list[Callable[[], Problems]] = [
    modules_are_small,
    functions_are_small,
    parameter_lists_are_short,
    classes_are_small,
    lines_are_short,
    names_say_something,
    the_core_calls_no_clock_thread_or_lot,
    threads_start_only_in_adapters,
    no_module_is_dead,
    imports_form_no_cycle,
    packages_and_public_names_have_docstrings,
    a_todo_names_its_issue,
    no_path_of_one_machine,
    no_registry_host,
    the_readme_is_short,
    documents_name_files_that_exist,
    every_page_is_in_the_navigation,
    sources_resolve,
    promises_are_written_down,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_house_rules_hold(rule: Callable[[], Problems]) -> None:
    problems = list(rule())
    if problems:
        pytest.fail("\n" + "\n".join(problems), pytrace=False)
