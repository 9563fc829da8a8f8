"""Generated pages of the site: the reference from code, and the changelog.

A hook of mkdocs (mkdocs.yml); the pages exist only in the built site, so they cannot be stale.
"""

import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
_SECTION = re.compile(r"^(Args|Returns|Raises|Shape|Source):\s*", re.MULTILINE)
_FIELD = re.compile(r"^    (\w+): [^#]*?(?:#\s*(.*))?$")
_PREFIXES = re.compile(r"(opentalos|collections|typing|datetime|pathlib)\.([a-z_]+\.)*(?=\w)|~")
_ADMIN = ("TopicAdmin", "PermissionAdmin", "QuotaAdmin", "GroupAdmin")  # parts of TalosAdmin
_SDK = """# Python SDK

`opentalos.sdk` is for synchronous code; `opentalos.sdk.aio` has the same classes for asyncio, as
`opentalos.sdk.aio.tables` and `opentalos.sdk.aio.stream` have those of `opentalos.sdk.tables` and
`opentalos.sdk.stream`. This page is generated from the code.

"""
_TESTING = """# Testing module

The public names of `opentalos.testing`; see [how to use it](../how-to/testing.md).
This page is generated from the code.

"""
_CLI = """# Command line

The same text as `talos COMMAND --help`. Exit status: 0 success, 1 failure, 2 usage error,
130 interrupted by Ctrl-C. This page is generated from the code.

"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages; mkdocs calls this with the files it found."""
    pages = {
        "reference/sdk.md": _SDK + sdk_reference(),
        "reference/testing.md": _TESTING + module_reference("opentalos.testing", "##"),
        "reference/cli.md": _CLI + cli_reference(),
        # Its links are relative to the repository, those of the site to docs.
        "changelog.md": (ROOT / "CHANGELOG.md")
        .read_text(encoding="utf-8")
        .replace("](docs/", "]("),
    }
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def sdk_reference() -> str:
    """All public names of the SDK."""
    parts = ["## opentalos.sdk\n\n", module_reference("opentalos.sdk", "###")]
    admin = importlib.import_module("opentalos.sdk.sync.admin")
    parts.append("## Parts of TalosAdmin\n\n`topics`, `permissions`, `quotas` and `groups`.\n\n")
    parts += [f"### {name}\n\n{described(getattr(admin, name))}" for name in _ADMIN]
    parts += ["## opentalos.sdk.aio\n\n", module_reference("opentalos.sdk.aio", "###")]
    for name in ("tables", "stream", "arrow", "errors"):
        parts += [f"## opentalos.sdk.{name}\n\n", module_reference(f"opentalos.sdk.{name}", "###")]
    return "".join(parts)


def module_reference(name: str, heading: str) -> str:
    """The names in ``__all__`` of a module, with their docstrings."""
    module = importlib.import_module(name)
    return "".join(
        f"{heading} {item}\n\n{described(getattr(module, item))}" for item in sorted(module.__all__)
    )


def described(thing: Any) -> str:
    """Signature, docstring, fields and methods."""
    if isinstance(thing, UnionType):
        return f"`{_PREFIXES.sub('', str(thing))}`\n\n"
    if not (inspect.isclass(thing) or inspect.isfunction(thing)):
        return "A constant.\n\n"
    parts = []
    if inspect.isfunction(thing) or not issubclass(thing, Exception | Enum):
        parts.append(f"```python\n{signature(thing.__name__, thing)}\n```\n\n")
    parts.append(prose(thing))
    if not inspect.isclass(thing):
        return "".join(parts)
    if issubclass(thing, Enum):
        parts.append(", ".join(f"`{item.name}`" for item in thing) + "\n\n")
    elif dataclasses.is_dataclass(thing) or hasattr(thing, "_fields"):
        parts.append(fields_table(thing))
    parts += [
        f"**{name}**\n\n```python\n{shown}\n```\n\n{prose(method)}"
        for name, shown, method in methods(thing)
    ]
    return "".join(parts)


def prose(thing: Any) -> str:
    """A docstring as Markdown."""
    own = thing.__dict__.get("__doc__") if inspect.isclass(thing) else thing.__doc__
    text = inspect.cleandoc(own or "")
    if inspect.isclass(thing) and text.startswith(f"{thing.__name__}("):
        text = ""  # made by dataclass or NamedTuple
    text = _SECTION.sub(lambda found: f"\n**{found[1]}:** ", text.replace("``", "`"))
    return text.replace("<", "&lt;") + "\n\n" if text else ""


def signature(name: str, thing: Any) -> str:
    """The signature on one line, or with one parameter per line."""
    try:
        made = inspect.signature(thing)
    except (TypeError, ValueError):
        return name
    kept = [
        parameter for parameter in made.parameters.values() if parameter.name not in ("self", "cls")
    ]
    shown = [_PREFIXES.sub("", str(item)) for item in kept]
    named = [item.kind is inspect.Parameter.KEYWORD_ONLY for item in kept]
    if any(named):
        shown.insert(named.index(True), "*")
    line = f"{name}({', '.join(shown)})"
    return line if len(line) <= 100 else f"{name}(\n    " + ",\n    ".join(shown) + ",\n)"


def fields_table(cls: type[Any]) -> str:
    """Fields with their defaults and comments."""
    found = (_FIELD.match(line) for line in inspect.getsource(cls).splitlines())
    notes = {match[1]: match[2] or "" for match in found if match}
    if dataclasses.is_dataclass(cls):
        missing = dataclasses.MISSING
        rows = [
            (field.name, "" if field.default is missing else f"`{field.default!r}`")
            for field in dataclasses.fields(cls)
        ]
    else:
        rows = [(name, "") for name in cls._fields]
    lines = ["| Field | Default | Meaning |", "| --- | --- | --- |"]
    for name, default in rows:
        note = notes.get(name, "").replace("|", "\\|")
        lines.append(f"| `{name}` | {default if '<' not in default else ''} | {note} |")
    return "\n".join(lines) + "\n\n"


def methods(cls: type[Any]) -> Iterator[tuple[str, str, Any]]:
    """Public methods and properties of the class in its order, then inherited ones."""
    members = dict(vars(cls))
    for base in cls.__mro__:
        if base.__module__.startswith("opentalos.sdk.sync."):
            for name, member in vars(base).items():
                members.setdefault(name, member)
    for name, found in members.items():
        if name.startswith("_"):
            continue
        if isinstance(found, property):
            yield name, name, found.fget
        elif inspect.isfunction(function := getattr(found, "__func__", found)):
            yield name, signature(name, function), function


def cli_reference() -> str:
    """Every command with its help."""
    from opentalos.cli.main import talos

    return "".join(commands(talos, click.Context(talos, info_name="talos", terminal_width=100)))


def commands(group: click.Group, context: click.Context) -> Iterator[str]:
    """The commands of a group, depth first."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if command.hidden:
            continue  # a former name
        inner = click.Context(command, info_name=name, parent=context, terminal_width=100)
        depth = "##" if context.parent is None else "###"
        yield f"{depth} {inner.command_path}\n\n```text\n{command.get_help(inner)}\n```\n\n"
        if isinstance(command, click.Group):
            yield from commands(command, inner)
