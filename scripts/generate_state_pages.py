"""Write the pages that show the state machines of the core, from their transition tables.

Run without arguments; ``--check`` only says whether the pages are current. A new machine is one
line in ``MACHINES``: a module with the enums ``State`` (the first member is the first state) and
``Event``, whose values describe them, and ``TRANSITIONS``: dict[tuple[State, Event], State].
"""

import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import ModuleType

from opentalos.broker.tables.shard import state as table_shard
from opentalos.log.partition import state as log_partition

DOCS = Path(__file__).parents[1] / "docs" / "internals"


@dataclass(frozen=True, slots=True)
class Machine:
    """One page: the machine that ``module`` declares."""

    page: str
    title: str
    module: ModuleType

    @property
    def transitions(self) -> Mapping[tuple[Enum, Enum], Enum]:
        """The table as the code has it."""
        table: Mapping[tuple[Enum, Enum], Enum] = self.module.TRANSITIONS
        return table


MACHINES = (
    Machine("partition-states.md", "States of a log partition", log_partition),
    Machine("shard-states.md", "States of a table shard", table_shard),
)


def render(machine: Machine) -> str:
    """The whole page."""
    source = machine.module.__name__.replace(".", "/")
    theory = (inspect.getdoc(machine.module) or "").replace("``", "`")
    return "\n".join(
        [
            f"# {machine.title}",
            "",
            theory,
            "",
            f"This page is generated from `src/{source}.py` by `make generate`. A pair of a state "
            "and an event that it does not show is illegal and raises `IllegalTransition`.",
            "",
            "## States",
            "",
            *_members("State", machine.module.State),
            "",
            "## Events",
            "",
            *_members("Event", machine.module.Event),
            "",
            "## Transitions",
            "",
            f"The first state is *{_name(next(iter(machine.module.State)))}*. Events that change "
            "nothing stand last in each block.",
            "",
            "```text",
            *_diagram(machine),
            "```",
            "",
        ]
    )


def _members(heading: str, members: type[Enum]) -> Iterator[str]:
    yield f"| {heading} | Meaning |"
    yield "| --- | --- |"
    for member in members:
        yield f"| {_name(member)} | {member.value} |"


def _name(member: Enum) -> str:
    return member.name.lower().replace("_", " ")


def _diagram(machine: Machine) -> Iterator[str]:
    """Per state: which events lead to which state, and which are taken without a change."""
    for state in machine.module.State:
        leads: dict[Enum, list[str]] = {}
        for (source, event), following in machine.transitions.items():
            if source is state:
                leads.setdefault(following, []).append(_name(event))
        yield _name(state)
        stays = leads.pop(state, [])
        width = max((len(", ".join(events)) for events in leads.values()), default=0)
        for following, events in leads.items():
            label = f"({', '.join(events)})"
            yield f"  --{label:-<{width + 2}}--> {_name(following)}"
        if stays:
            yield f"  stays: {', '.join(stays)}"
        yield ""


def main() -> int:
    """0: the pages are current, or were written; 1: ``--check`` found one stale."""
    check, stale = sys.argv[1:] == ["--check"], 0
    for machine in MACHINES:
        path, text = DOCS / machine.page, render(machine)
        if check:
            current = path.exists() and path.read_text() == text
            stale += not current
            print(f"{machine.page} is {'current' if current else 'stale: run make generate'}")
        else:
            path.write_text(text)
            print(f"wrote {machine.page}")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
