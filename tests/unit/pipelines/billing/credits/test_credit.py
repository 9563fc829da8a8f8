"""A credit lowers invoices to zero at most, a refund is paid back; both are applied once."""

from datetime import date
from decimal import Decimal
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opentalos.pipelines.billing.credits.credit import Credit, carried, taken, with_credits
from opentalos.pipelines.billing.plans.price_plan import PricePlan, Resource, Rounding
from opentalos.pipelines.billing.plans.tenant_plans import Assigned
from opentalos.pipelines.lake.periods.month import Month

# Independent of the machine's speed: few examples, without a deadline, the same in each run.
QUICK = settings(
    max_examples=30, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
MARCH = Month(2026, 3)
PLAN = PricePlan(
    name="p", valid_from=Month(2026, 1), currency="EUR", decimals=2, rounding=Rounding.HALF_UP,
    minimum=Decimal(0), rates={}, origin="",
)  # fmt: skip
ASSIGNED = [Assigned("t", PLAN)]
NOTHING: dict[str, Decimal] = {}


def credit(name: str, amount: str, day: date = date(2026, 3, 20), **changed: Any) -> Credit:
    usual: dict[str, Any] = {
        "kind": Resource.CREDIT, "id": name, "tenant": "t", "day": day, "amount": Decimal(amount),
        "currency": "EUR", "reason": "outage",
    }  # fmt: skip
    return Credit(**(usual | changed))


def charge(amount: str, tenant: str = "t") -> dict[str, Any]:
    return {"tenant": tenant, "amount": Decimal(amount), "id": None, "resource": Resource.RECORDS}


money = st.decimals(0, 10**6, places=2)
entries = st.lists(
    st.tuples(st.sampled_from([Resource.CREDIT, Resource.REFUND]), money.filter(bool)), max_size=6
).map(lambda drawn: [credit(str(n), str(amount), kind=kind)
                     for n, (kind, amount) in enumerate(drawn)])  # fmt: skip


@QUICK
@given(st.lists(money, min_size=1, max_size=8), entries)
def test_over_the_months_each_is_taken_once_and_none_more_than_it_is(
    charges: list[Decimal], credits: list[Credit]
) -> None:
    used: dict[str, Decimal] = {}
    for month, due in enumerate(charges):
        items = taken(due, credits, used)
        total = due - sum((item.amount for item in items), Decimal(0))
        refunds = [item for item in items if item.credit.kind is Resource.REFUND]
        assert total >= 0 or refunds
        assert not (month and refunds), "the first invoice pays a refund as a whole"
        for item in items:
            used[item.credit.id] = used.get(item.credit.id, Decimal(0)) + item.amount
    for entry in credits:
        assert 0 <= used.get(entry.id, 0) <= entry.amount
    whole = sum((entry.amount for entry in credits if entry.kind is Resource.CREDIT), Decimal(0))
    given_back = sum((used.get(entry.id, Decimal(0)) for entry in credits
                      if entry.kind is Resource.CREDIT), Decimal(0))  # fmt: skip
    assert given_back == min(whole, sum(charges, Decimal(0)))


@QUICK
@given(money, entries)
def test_what_was_taken_is_not_taken_again(due: Decimal, credits: list[Credit]) -> None:
    all_used = {entry.id: entry.amount for entry in credits}
    assert taken(due, credits, all_used) == []
    assert taken(due, credits, NOTHING) == taken(due, list(reversed(credits)), NOTHING)


def test_lines_of_credits_follow_those_of_the_tenant_and_are_below_zero() -> None:
    rows = [charge("10.00"), charge("3.00", "u")]
    refund = credit("R1", "4.00", kind=Resource.REFUND)
    made, problems = with_credits(
        rows, [*ASSIGNED, Assigned("u", PLAN)], [refund, credit("C1", "12.50")], NOTHING, MARCH
    )
    assert problems == []
    assert [(row["tenant"], row["id"], str(row["amount"])) for row in made] == [
        ("t", None, "10.00"),
        ("t", "C1", "-10.00"),
        ("t", "R1", "-4.00"),
        ("u", None, "3.00"),
    ]
    assert (made[1]["reason"], made[1]["date"]) == ("outage", date(2026, 3, 20))


def test_what_is_left_of_a_credit_goes_to_the_next_invoice() -> None:
    old = credit("C1", "12.50", date(2026, 1, 31))
    made, _ = with_credits([charge("10")], ASSIGNED, [old], {"C1": Decimal(10)}, MARCH)
    assert made[-1]["amount"] == Decimal("-2.50")
    assert [row["id"] for row in carried(made, MARCH)] == ["C1"]
    assert list(carried(made, Month(2026, 1))) == []


def test_a_credit_of_a_later_month_waits() -> None:
    later = credit("C1", "1", date(2026, 4, 1))
    assert with_credits([charge("10")], ASSIGNED, [later], NOTHING, MARCH) == ([charge("10")], [])


def test_what_does_not_fit_the_invoice_is_a_problem_and_not_taken() -> None:
    wrong = [
        credit("C1", "1", currency="USD"),
        credit("C2", "0.005"),
        credit("C3", "1", tenant="nobody"),
        credit("C4", "1"),
        credit("C5", "1", date(2026, 2, 1), tenant="nobody"),  # waits for an invoice
    ]
    made, problems = with_credits([charge("10")], ASSIGNED, wrong, {"C4": Decimal(3)}, MARCH)
    assert made == [charge("10")]
    assert problems == [
        "tenant nobody: credit C3 has no invoice, since the tenant has no plan",
        "tenant t: credit C1 is in USD, the invoice in EUR",
        "tenant t: credit C2 is 0.005, but the invoice has 2 decimals",
        "tenant t: credit C4 is 1, but the invoices of other months took 3 of it",
    ]
