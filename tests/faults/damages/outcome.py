"""How a damage ended, in words for a reader who wants to repeat it."""

from collections.abc import Mapping
from dataclasses import dataclass

from tests.faults.damages.choice import Damage
from tests.faults.damages.judge import Judgement, Observed, Refused, Verdict, Wrong

SHOWN_CHARACTERS = 600


@dataclass(frozen=True)
class Outcome:
    """A damage and its end; ``str`` is for a reader who wants to repeat it."""

    seed: int
    world: str
    damage: Damage
    judgement: Judgement
    observed: Observed

    def __str__(self) -> str:
        verdict, wrongs = self.judgement
        found = "finds damage" if self.observed.verify else "finds nothing"
        head = f"seed {self.seed}: {verdict}: {self.damage} ({self.world}); verify {found}"
        # One line for all that is alike.
        alike: dict[tuple[str, Verdict, tuple[str, ...]], list[Wrong]] = {}
        for wrong, each, heard in wrongs:
            alike.setdefault((wrong.what, each, heard), []).append(wrong)
        lines = [
            f"    {each} [{' '.join(heard)}]: {len(found)} x {what}, such as {found[0].text}"
            f"{self._answers(found[0])}"[:SHOWN_CHARACTERS]
            for (what, each, heard), found in alike.items()
        ]
        return "\n".join([head, *lines])

    def _answers(self, wrong: Wrong) -> str:
        """What a get of something missing was answered and a put there, or what ended the start."""
        if wrong.what == "start":
            return f": {self.observed.refusal.splitlines()[-1]}"
        if wrong.partition is None or wrong.what != "missing":
            return ""
        refused = self.observed.refused.get(wrong.partition, {}).get(wrong.first)
        put = self.observed.put.get(wrong.partition, "none")
        got = "nothing is there" if refused is None else refused.text
        return f"; get: {got}; put: {put.text if isinstance(put, Refused) else put}"


def summary(ended: Mapping[Verdict, int]) -> str:
    """The number of each verdict."""
    return ", ".join(f"{ended.get(verdict, 0)} {verdict}" for verdict in Verdict)
