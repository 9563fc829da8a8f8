"""The charts of an invoice: a bar for each day, with its exact count."""

import re
from dataclasses import replace
from xml.etree import ElementTree

from opentalos.pipelines.billing.invoices.daily_chart import DayUse, daily_chart
from opentalos.pipelines.lake.periods.month import Month

MARCH = Month(2026, 3)
UNUSED = DayUse(records=0, bytes=0)


def month_of(**uses: DayUse) -> list[DayUse]:
    return [uses.get(f"d{day}", UNUSED) for day in range(1, 32)]


def charts(page: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(text) for text in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def bars(chart: ElementTree.Element) -> list[tuple[str, float, float]]:
    """Title, height and lower end of each bar."""
    return [
        (
            bar.findtext("title", ""),
            float(bar.get("height", "")),
            float(bar.get("y", "")) + float(bar.get("height", "")),
        )
        for bar in chart.iter("rect")
    ]


def test_each_day_has_a_bar_as_high_as_its_share_of_the_largest() -> None:
    days = month_of(d1=DayUse(records=1_000, bytes=0), d31=DayUse(records=500, bytes=3 << 20))
    messages, sizes = charts(daily_chart(MARCH, days))
    shown = bars(messages)
    assert len(shown) == 31
    assert shown[0][0] == "2026-03-01: 1,000 messages"
    assert shown[30][0] == "2026-03-31: 500 messages"
    assert shown[0][1] == 2 * shown[30][1]
    assert {height for _, height, _ in shown[1:30]} == {0.0}
    assert {end for _, _, end in shown} == {106.0}
    assert messages.findtext("title") == ("Messages stored by day in UTC, at most 1,000 on one day")
    assert sizes.findtext("title") == "Bytes stored by day in UTC, at most 3.0 MiB on one day"


def test_a_day_with_little_usage_is_visible() -> None:
    days = month_of(d1=DayUse(records=10**12, bytes=1), d2=DayUse(records=1, bytes=1))
    shown = bars(charts(daily_chart(MARCH, days))[0])
    assert [height for _, height, _ in shown[1:3]] == [1.0, 0.0]


def test_some_days_are_numbered() -> None:
    chart = charts(daily_chart(MARCH, month_of(d1=DayUse(records=1, bytes=1))))[0]
    numbers = [node.text for node in chart.iter("text")][1:]
    assert numbers == ["1", "5", "10", "15", "20", "25", "30"]


def test_a_month_without_usage_has_no_chart() -> None:
    assert daily_chart(MARCH, month_of()) == ""
    assert daily_chart(MARCH, ()) == ""


def test_messages_without_payload_are_drawn() -> None:
    [messages, sizes] = charts(daily_chart(MARCH, month_of(d2=DayUse(records=3, bytes=0))))
    assert bars(messages)[1][0] == "2026-03-02: 3 messages"
    assert {height for _, height, _ in bars(sizes)} == {0.0}
    assert sizes.findtext("title") == "Bytes stored by day in UTC, at most 0 B on one day"


def test_the_bars_fit_the_drawing_in_every_month() -> None:
    use = DayUse(records=5, bytes=7)
    for month, count in ((Month(2026, 2), 28), (Month(2028, 2), 29), (MARCH, 31)):
        for chart in charts(daily_chart(month, [replace(use) for _ in range(count)])):
            ends = [
                float(bar.get("x", "")) + float(bar.get("width", "")) for bar in chart.iter("rect")
            ]
            assert len(ends) == count
            assert max(ends) <= 720
