"""No pattern of ours is slow for any text: each is examined by its form (``backtracking.py``).

Patterns are found by the calls of ``re`` and of REST's ``Form``, so a new one is examined without
an entry here. Patterns of clients have an engine of their own: ``catalog/topics/pattern.py``.
"""

import ast
import importlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.backtracking import Use, finding, parsed
from tests.unit.matrix import matrix
from tests.unit.source_tree import (
    SOURCE,
    dotted,
    functions,
    module_name,
    shown,
    source_files,
    tree_of,
)

# Where the flags are, by the function of ``re``.
FLAGS = {
    "compile": 1, "match": 2, "fullmatch": 2, "search": 2, "findall": 2, "finditer": 2,
    "split": 3, "sub": 4, "subn": 4,
}  # fmt: skip
# Files with a call whose pattern is not in the source, and why it cannot harm a server.
ELSEWHERE = {
    "gateway/rest/routing/schema.py": "the forms of REST, which are examined where they are made",
    "pipelines/datasource/source/options.py": "a user's own, in the user's own Spark driver",
}
# Patterns that are not linear, and what bounds the text.
BOUNDED: Mapping[str, str] = {
    "adapters/java_types.py _METHOD": "what Java says of the methods of one class of a client",
    "adapters/java_types.py _CONSTRUCTOR": "what Java says of the constructors of one such class",
    "testing/simulation/world/witness.py _SEGMENT": "one log line of a simulated server",
}
OTHER_IMPORTS = re.compile(r"^ *(?:from re import|import re as|import regex).*", re.MULTILINE)


@dataclass(frozen=True)
class Applied:
    """A pattern as one place applies it."""

    path: Path
    line: int
    name: str
    pattern: str | bytes
    flags: int
    use: Use

    @property
    def place(self) -> str:
        return f"{self.path.relative_to(SOURCE)} {self.name or repr(self.pattern)}"


def patterns_of(path: Path) -> Iterator[Applied]:
    if not re.search(r"\bre\.|\bForm\(", path.read_text()):
        return
    names = {
        id(node.value): target.id
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree_of(path)):
        if not isinstance(node, ast.Call):
            continue
        module, _, function = dotted(node.func).rpartition(".")
        if module == "re" and function in FLAGS:
            where = str(path.relative_to(SOURCE))
            if where in ELSEWHERE and not isinstance(node.args[0], ast.Constant):
                continue
            pattern, flags = value_of(node.args[0], path), flags_of(node, function, path)
            name = names.get(id(node), "")
            for use in (
                uses(name, path) or {Use.SEARCH} if function == "compile" else {use_of(function, 0)}
            ):
                yield Applied(path, node.lineno, name, pattern, flags, use)
        elif dotted(node.func) == "Form" and "rest" in path.parts:
            pattern = value_of(node.args[0], path)[1:-1]  # as schema.py applies it
            yield Applied(path, node.lineno, "", pattern, 0, Use.ONCE)


def value_of(node: ast.expr, path: Path) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    module = importlib.import_module(module_name(path))
    try:
        return eval(ast.unparse(node), vars(module))
    except NameError:
        rule = "a pattern made while running; a client's belongs to catalog/topics/pattern.py"
        raise AssertionError(shown(path, node.lineno, rule)) from None


def flags_of(node: ast.Call, function: str, path: Path) -> int:
    given = [keyword.value for keyword in node.keywords if keyword.arg == "flags"]
    given += node.args[FLAGS[function] :][:1]
    return int(eval(ast.unparse(given[0]), {"re": re})) if given else 0


def uses(name: str, path: Path) -> set[Use]:
    """How a compiled pattern is applied, also elsewhere if its name is public."""
    if name.startswith("_"):
        return uses_in(name, tree_of(path), path)
    others = [other for other in source_files() if name and name in other.read_text()]
    return set().union(*(uses_in(name, tree_of(other), other) for other in others))


def uses_in(name: str, tree: ast.AST, path: Path) -> set[Use]:
    known, found = set(), set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr in FLAGS:
            if dotted(function.value).rpartition(".")[2] == name:
                known.add(id(function.value))
                found.add(use_of(function.attr, len(node.args) - 1))
        for number, passed in enumerate(node.args):
            if isinstance(passed, ast.Name) and passed.id == name:
                for called in functions(tree_of(path)):
                    if called.name == dotted(function):
                        known.add(id(passed))
                        found |= uses_in(called.args.args[number].arg, called, path)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            if id(node) not in known:
                found.add(Use.SEARCH)  # nobody knows where it is passed to
    return found


def use_of(function: str, more: int) -> Use:
    """``more``: arguments after the text, which say where a match begins."""
    if function in ("match", "fullmatch"):
        return Use.TOKENS if more > 0 and function == "match" else Use.ONCE
    return Use.SEARCH


@cache
def all_applied() -> tuple[Applied, ...]:
    return tuple(applied for path in source_files() for applied in patterns_of(path))


@cache
def findings() -> Mapping[str, str]:
    """What is not linear, and why."""
    return {
        applied.place: f"line {applied.line}, applied as {applied.use.value}: {why}"
        for applied in all_applied()
        if (why := finding(applied.pattern, applied.flags, applied.use))
    }


def test_every_pattern_needs_time_in_proportion_to_the_text() -> None:
    assert {place: why for place, why in findings().items() if place not in BOUNDED} == {}
    assert set(BOUNDED) - set(findings()) == set(), "these are linear by now"


def test_patterns_are_found_where_they_are() -> None:
    found = {applied.place for applied in all_applied()}
    assert {"sds/scan_filter.py _TOKEN", "wire/thrift/json_format.py _STRING"} <= found
    assert any(place.startswith("gateway/rest/routing/forms.py") for place in found)
    others = [
        shown(path, 1, f"{found[0]}: write import re, so that its patterns are found")
        for path in source_files()
        for found in OTHER_IMPORTS.finditer(path.read_text())
    ]
    assert others == []


SLOW = [
    ("(a+)+b", Use.ONCE),
    ("(a*)*b", Use.ONCE),
    ("(a|a)*b", Use.ONCE),
    ("(a|aa)+b", Use.ONCE),
    ("(a?b?)*c", Use.ONCE),
    (r"(\w+\s?)*!", Use.ONCE),
    (r"^(([a-z])+.)+[A-Z]([a-z])+$", Use.ONCE),
    (".*.*=.*", Use.ONCE),
    (r"\d+\.?\d*x", Use.ONCE),
    (r"\s*([^=]+)\s*=", Use.ONCE),
    ('"([^"\\\\]+|\\\\.)*"', Use.ONCE),
    ("a?" * 60 + "b", Use.ONCE),
    ("(a?){2}(a?){8}(a?){8}b", Use.ONCE),
    (r"(a)\1", Use.ONCE),
    ("(?:(?!x*y).)*", Use.ONCE),
    (r"\s+$", Use.SEARCH),
    ("a*b", Use.SEARCH),
    ("<[^>]*>", Use.SEARCH),
    (r"^(a*)a*b", Use.SEARCH),
    (r"(?m)^\s*x", Use.SEARCH),
    (r"\bx*y", Use.SEARCH),
    ("a(?:a*c)?", Use.TOKENS),
    # The numbers of conditions of scans, as they were.
    (r"\s*(?:(-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.])|([^\W\d]\w*))", Use.TOKENS),
]


@matrix(("pattern", "use"), SLOW)
def test_patterns_that_are_known_to_be_slow_are_found(pattern: str, use: Use) -> None:
    assert finding(pattern, 0, use)


@matrix(
    ("pattern", "use"),
    [
        ("x*y*", Use.ONCE),
        (r"\d++(?:\.\d*+)?x", Use.ONCE),
        ("(?>a*)a*b", Use.ONCE),
        ('"(?:[^"\\\\]++|\\\\.)*"', Use.ONCE),
        ("[a-z](?:[a-z_]{0,78}[a-z])?", Use.ONCE),
        ("a(?:a*c)?", Use.ONCE),
        (r"[\s,]+", Use.SEARCH),
        ("(?m)^a: [^\n]*\n", Use.SEARCH),
        ("[a-z]+|[0-9]+", Use.TOKENS),
    ],
)
def test_linear_patterns_are_not_found(pattern: str, use: Use) -> None:
    assert finding(pattern, 0, use) == ""


class Engine:
    """A backtracking engine as Python's is, which counts its steps."""

    def __init__(self, text: str) -> None:
        self.text, self.steps = text, 0

    def run(self, nodes: Any, at: int, then: Callable[[int], bool]) -> bool:
        self.steps += 1
        if not nodes:
            return then(at)
        (name, value), rest = nodes[0], nodes[1:]

        def follow(after: int) -> bool:
            return self.run(rest, after, then)

        match str(name):
            case "LITERAL":
                return self.text[at : at + 1] == chr(value) and follow(at + 1)
            case "IN":
                return self.text[at : at + 1] in ("a", "b") and follow(at + 1)
            case "SUBPATTERN":
                return self.run(list(value[3]), at, follow)
            case "BRANCH":
                return any(self.run(list(branch), at, follow) for branch in value[1])
            case "MAX_REPEAT":
                return self.repeat(value, 0, at, follow)
            case "POSSESSIVE_REPEAT":
                return self.take(value, at, follow)
        raise AssertionError(name)

    def repeat(self, value: Any, count: int, at: int, then: Callable[[int], bool]) -> bool:
        least, most, part = value

        def again(after: int) -> bool:
            return (after > at or count < least) and self.repeat(value, count + 1, after, then)

        if count < int(most) and self.run(list(part), at, again):
            return True
        return count >= least and then(at)

    def take(self, value: Any, at: int, then: Callable[[int], bool]) -> bool:
        least, most, part = value
        for count in range(int(most)):
            ends: list[int] = []
            self.run(list(part), at, partial(first_into, ends))
            if not ends and count < least:
                return False
            if not ends or (ends[0] == at and count >= least):
                break
            at = ends[0]
        return then(at)


def first_into(ends: list[int], after: int) -> bool:
    ends.append(after)
    return True


def steps(pattern: str, text: str, use: Use) -> tuple[int, bool]:
    """The engine's steps, and whether it found a match."""
    nodes, engine = list(parsed(pattern)), Engine(text)
    if use is Use.ONCE:
        found = engine.run(nodes, 0, len(text).__eq__)
    else:
        found = any(engine.run(nodes, start, lambda _: True) for start in range(len(text) + 1))
    return engine.steps, found


_patterns = st.recursive(
    st.sampled_from(["a", "b", "[ab]", "a*", "b+", "a?", "a*+", "b++"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from("*+?")).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
    ),
    max_leaves=5,
)
_words = st.text("ab", max_size=2)


@settings(max_examples=300, deadline=None)
@given(_patterns, st.sampled_from([Use.ONCE, Use.SEARCH]), _words, _words, st.sampled_from("abc"))
def test_patterns_that_pass_need_linear_work(
    pattern: str, use: Use, first: str, repeated: str, last: str
) -> None:
    if finding(pattern, 0, use):
        return
    short, long = (first + repeated * number + last for number in (10, 20))
    work, found = steps(pattern, short, use)
    matched = re.fullmatch(pattern, short) if use is Use.ONCE else re.search(pattern, short)
    assert found == bool(matched)
    assert steps(pattern, long, use)[0] <= 2.2 * work
