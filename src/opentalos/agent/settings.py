"""The settings of an agent."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """The settings of an agent; ``talos agent`` sets them from its options."""

    listen: str
    spool: Path
    spool_bytes_max: int
    step_s: int
    machine: str  # empty: the host name
    push_key_file: Path | None = None  # needed beyond loopback
