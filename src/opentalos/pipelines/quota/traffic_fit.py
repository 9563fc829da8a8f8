"""Level, trend and weekly season of a series of daily peaks, by medians, robust to outliers.

The model of a day is ``(level + trend * age) * season of its weekday``; its age is the number of
days since the end of the series (negative).
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

WEEK: Final = 7
TREND_DAYS: Final = 28  # latest days used for the trend and the spread
LEVEL_DAYS: Final = 14
SEASON_DAYS: Final = 56  # eight of each weekday
GAP_DAYS_MAX: Final = 2  # up to this many days without traffic between others are missing data
TREND_AGREEMENT_MIN: Final = 0.3  # share of rising minus falling pairs of days
SEASON_MAX: Final = 1_000.0
FACTOR_MIN: Final = 1e-9  # of a weekday: below it there is no traffic, and divisions overflow
_RATE_MAX: Final = float(1 << 50)  # the server's limit, bytes/s
_NORMAL_MAD: Final = 1.4826  # standard deviation / median absolute deviation, if normal
_NORMAL_Q95: Final = 1.645
Days = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The model of a series, in its unit; ``season``: factors by weekday, Monday first."""

    level: float
    trend_per_day: float
    season: tuple[float, ...]
    spread: float  # standard deviation of the days from the model
    peak: float  # of the latest 28 days
    repeated_peak: float  # reached by two of them


NOTHING: Final = Fit(
    level=0.0, trend_per_day=0.0, season=(1.0,) * WEEK, spread=0.0, peak=0.0, repeated_peak=0.0
)


def fit(peaks: Days, end_weekday: int) -> Fit:
    """The model of a series of days; the day after the last one is an ``end_weekday``.

    Args: peaks: one value per day without gaps, >= 0; 0 where nothing is recorded.
    """
    days = np.nan_to_num(np.asarray(peaks, dtype=np.float64), nan=0.0, posinf=_RATE_MAX)
    days = np.clip(days, 0.0, _RATE_MAX)
    if not days.size:
        return NOTHING
    known = _without_gaps(days)
    weekdays = (end_weekday - days.size + np.arange(days.size)) % WEEK
    season = _season(known, weekdays)
    factors = season[weekdays]
    usable = factors > FACTOR_MIN
    even = np.where(usable, known / np.where(usable, factors, 1.0), np.nan)
    ages = np.arange(days.size, dtype=np.float64) - days.size  # -1: the last day
    trend = _trend(even[-TREND_DAYS:], ages[-TREND_DAYS:])
    level = _median(even[-LEVEL_DAYS:] - trend * ages[-LEVEL_DAYS:])
    residuals = (known - (level + trend * ages) * factors)[-TREND_DAYS:]
    return Fit(
        level=max(0.0, level),
        trend_per_day=trend,
        season=tuple(float(factor) for factor in season),
        spread=_spread(residuals),
        peak=float(days[-TREND_DAYS:].max()),
        repeated_peak=float(np.sort(days[-TREND_DAYS:])[-2]) if days.size > 1 else 0.0,
    )


def _without_gaps(days: Days) -> Days:
    """Replace short runs of days without traffic between others by NaN, except the last days."""
    known = days.copy()
    busy = np.flatnonzero(days > 0)
    for former, following in pairwise(busy):
        if 1 < following - former <= GAP_DAYS_MAX + 1:
            known[former + 1 : following] = np.nan
    return known


def _season(days: Days, weekdays: NDArray[Any]) -> Days:
    """The median ratio of each weekday to the mean of the seven days around it."""
    if days.size < 3 * WEEK - 1:  # fewer than two weeks of days with a whole week around them
        return np.ones(WEEK)
    latest, half = slice(-(SEASON_DAYS + WEEK - 1), None), WEEK // 2
    around = np.lib.stride_tricks.sliding_window_view(days[latest], WEEK)
    weights = np.isfinite(around)
    sums = np.where(weights, around, 0.0).sum(axis=1)
    middles, middle_days = days[latest][half:-half], weekdays[latest][half:-half]
    usable = np.isfinite(middles) & (sums > 0)
    means = sums[usable] / weights.sum(axis=1)[usable]
    ratios, ratio_days = middles[usable] / means, middle_days[usable]
    if np.bincount(ratio_days, minlength=WEEK).min() < 2:
        return np.ones(WEEK)
    season = np.array([np.median(ratios[ratio_days == weekday]) for weekday in range(WEEK)])
    mean = season.mean()
    return np.clip(season / mean, 0.0, SEASON_MAX) if mean > 0 else np.ones(WEEK)


def _trend(values: Days, ages: Days) -> float:
    """Theil-Sen: the median slope of all pairs of days, if enough of them agree on its sign."""
    finite = np.isfinite(values)
    values, ages = values[finite], ages[finite]
    if values.size < LEVEL_DAYS:
        return 0.0
    first, second = np.triu_indices(values.size, 1)
    slopes = (values[second] - values[first]) / (ages[second] - ages[first])
    agreement = abs(float(np.sign(slopes).mean()))
    return float(np.median(slopes)) if agreement >= TREND_AGREEMENT_MIN else 0.0


def _spread(residuals: Days) -> float:
    residuals = residuals[np.isfinite(residuals)]
    if residuals.size < 2:
        return 0.0
    middle = np.median(residuals)
    usual = _NORMAL_MAD * float(np.median(np.abs(residuals - middle)))
    bursts = float(np.quantile(residuals, 0.95) - middle) / _NORMAL_Q95
    return max(usual, bursts)


def _median(values: Days) -> float:
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if finite.size else 0.0
