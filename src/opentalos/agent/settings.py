"""What an agent is started with."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """What the options say."""

    listen: str
    spool: Path
    spool_bytes_max: int
    step_s: int
    machine: str  # empty: what the machine calls itself
