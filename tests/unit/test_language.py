"""The words of the field: what reads as a private language is found here and named."""

import ast
import re

from tests.unit.source_tree import (
    ROOT,
    functions,
    python_files,
    shown,
    text_files,
    tree_of,
)

# Never right in this project's texts and names; the second column says what to write instead.
BANNED = {
    r"told|tells": "reported, published, says; in names: what was answered or delivered",
    r"anew": "again, from scratch",
    r"goes on|went on": "continues, resumes",
    r"comes to|came to": "totals, amounts to, reaches",
    r"lets? go": "closes, releases, abandons",
    r"bury|buries|buried|graves?": "schedule for deletion",
    r"errands?": "background task",
    r"breadth": "commit concurrency",
    r"learner": "partition recovery",
    r"for ever": "forever, indefinitely, until it is stopped",
    r"in turns": "round robin, alternately",
    r"somebody": "another server, a client, a user",
    r"durable end": "high watermark",
    r"by and by": "gradually",
    r"is no (?:time|number|name)": "is not a valid time",
    r"does not have the form": "a sentence that says what is allowed",
}
CHECKED = ("src", "docs", "bench", "scripts", "examples", "README.md", "CONTRIBUTING.md")
WORD = re.compile(rf"(?<![a-z])(?:{'|'.join(BANNED)})(?![a-z])", re.IGNORECASE)


def test_texts_use_the_words_of_the_field() -> None:
    found = [
        shown(path, number, f"{match[0]!r}: {line.strip()[:80]}")
        for path in text_files()
        if str(path.relative_to(ROOT)).startswith(CHECKED)
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        for match in WORD.finditer(line)
    ]
    assert found == []


def test_no_variable_is_called_one() -> None:
    found = [
        shown(path, node.lineno, "name the variable after the thing")
        for path in python_files()
        if str(path.relative_to(ROOT)).startswith(CHECKED)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Name) and node.id == "one" and isinstance(node.ctx, ast.Store)
    ]
    found += [
        shown(path, node.lineno, "name the parameter after the thing")
        for path in python_files()
        if str(path.relative_to(ROOT)).startswith(CHECKED)
        for node in functions(tree_of(path))
        for argument in node.args.args
        if argument.arg == "one"
    ]
    assert found == []
