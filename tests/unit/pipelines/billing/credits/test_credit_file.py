"""The file of credits and refunds is read exactly, or refused with the line."""

from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from opentalos.model.errors import ConfigError
from opentalos.pipelines.billing.credits.credit_file import check_credits, load_credits
from opentalos.pipelines.billing.plans.price_plan import Resource

ROOT = Path(__file__).resolve().parents[5]
CREDITS = """\
[[credit]]
id = "C-1"
tenant = "CLshop"
date = "2026-03-20"
amount = 12.50
currency = "EUR"
reason = "outage of 12 March"

[[refund]]
id = "R-1"
tenant = "CLshop"
date = "2026-04-02"
amount = 3
currency = "EUR"
reason = "paid twice"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "credits.toml"
    path.write_text(text)
    return path


def test_entries_are_exactly_what_is_written(tmp_path: Path) -> None:
    credit, refund = load_credits(write(tmp_path, CREDITS))
    assert (credit.kind, credit.id, credit.day) == (Resource.CREDIT, "C-1", date(2026, 3, 20))
    assert (str(credit.amount), credit.reason) == ("12.50", "outage of 12 March")
    assert (refund.kind, refund.amount) == (Resource.REFUND, Decimal(3))


def test_an_entry_that_is_repeated_as_it_is_counts_once(tmp_path: Path) -> None:
    assert len(load_credits(write(tmp_path, CREDITS + CREDITS))) == 2


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ('"R-1"', '"C-1"', 10, "id 'C-1' was given to another entry in line 1"),
        ("12.50", "0", 5, "amount must be above 0"),
        ("12.50", "-1", 5, "amount must be a number from 0"),
        ("12.50", "0.00001", 5, "at most 4 decimal places"),
        ('"EUR"', '"euro"', 6, "write three capitals"),
        ('"2026-03-20"', '"20 March"', 4, "date: "),
        ('reason = "outage of 12 March"\n', "", 1, "reason is missing"),
        ("reason", "why", 7, "unknown key why"),
    ],
)
def test_a_fault_is_refused_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, words: str
) -> None:
    path = write(tmp_path, CREDITS.replace(old, new, 1))
    with pytest.raises(ConfigError) as caught:
        load_credits(path)
    assert f"{path}:{line}: " in str(caught.value)
    assert words in str(caught.value)


def test_the_credits_of_the_examples_are_right() -> None:
    found, faults = check_credits(ROOT / "examples" / "billing" / "credits.toml")
    assert (len(found), faults) == (2, [])
