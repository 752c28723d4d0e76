"""The known truth of the synthetic impression log: P(click) and P(purchase | click) of a record.

Both probabilities are functions of what a record holds and of nothing else: no seed, no hidden
state. Whoever has a record can compute them again from the tables below. This module draws no
random number and writes no file; `input_pipelines.synthetic` does both.

With `sigmoid(t) = 1 / (1 + exp(-t))`, and every table named in capitals below:

    match       = 1 if item_category is one of interests, else 0
    age_fit     = exp(-((user_age - category.peak_age) / AGE_WIDTH)^2 / 2), 0 without a user_age
    price_ratio = log(item_price / category.typical_price)
    price_fit   = exp(-(price_ratio / PRICE_WIDTH)^2 / 2)
    hour_fit    = cos(2 pi (hour - device.peak_hour) / 24)
    quality     = sin(12.9898 * number in item_id)        looks random, cannot be learned
    propensity  = sin(78.233 * number in user_id)         the same

    true_click_probability = sigmoid(CLICK_INTERCEPT + country.click + device.click
        + category.click + 0.08 * len(interests) + 1.9 * match + 1.4 * age_fit
        + category.price_curve * price_fit + device.hour_swing * hour_fit
        + 0.17 * quality + 0.17 * propensity)

    true_purchase_probability = sigmoid(PURCHASE_INTERCEPT + country.purchase
        + PAYMENT[country, device] + 0.9 * match + 0.9 * age_fit - 0.8 * price_ratio
        + 0.17 * quality)

What is interesting about it: `match`, `age_fit`, `price_fit` and `hour_fit` are interactions of
two features each, which no linear model over single features can express. A `price_curve` above
0 is a bump (sells best at its typical price); below 0 it is a U (bargains and luxury attract).
Purchase shares `match` and `age_fit` with click, where there are twenty times more positives, so
learning both together can help. `quality` and `propensity` have a standard deviation of
0.17 / sqrt(2) = 0.12: real, but not worth the parameters it would take to learn them.

A worked number: a user of 45 from the US with the one interest books, on a phone at hour 21,
shown a book at 15.0 (its typical price), with numbers of user and item both 0, has the click logit
-5.1 + 0.4 + 0.1 + 0.1 + 0.08 + 1.9 + 1.4 + 0.8 + 0.5 = 0.18, a probability of 0.545.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Category(NamedTuple):
    """What the truth knows of an item category; prices share one currency."""

    name: str
    click: float
    peak_age: float
    typical_price: float
    price_curve: float


class Country(NamedTuple):
    """Main effects of a country on the two logits."""

    code: str
    click: float
    purchase: float


class Device(NamedTuple):
    """Main effect of a device on the click logit, and its daily rhythm."""

    name: str
    click: float
    peak_hour: float
    hour_swing: float


CATEGORIES = (
    Category("beauty", 0.2, 28.0, 20.0, 0.8),
    Category("books", 0.1, 45.0, 15.0, 0.8),
    Category("electronics", 0.3, 32.0, 150.0, -0.8),
    Category("fashion", 0.4, 24.0, 45.0, -0.8),
    Category("games", 0.1, 20.0, 35.0, 0.8),
    Category("garden", -0.3, 62.0, 40.0, 0.8),
    Category("grocery", 0.0, 50.0, 8.0, -0.8),
    Category("health", -0.2, 68.0, 25.0, 0.8),
    Category("home", 0.1, 38.0, 70.0, -0.8),
    Category("sports", 0.0, 30.0, 60.0, 0.8),
    Category("toys", -0.1, 36.0, 22.0, -0.8),
    Category("travel", -0.3, 56.0, 300.0, 0.8),
)
COUNTRIES = (
    Country("US", 0.4, 0.2),
    Country("DE", -0.2, 0.1),
    Country("GB", 0.2, 0.2),
    Country("FR", 0.0, -0.1),
    Country("BR", 0.5, -0.4),
    Country("IN", 0.3, -0.3),
    Country("JP", -0.6, 0.3),
    Country("SE", -0.4, 0.0),
)
DEVICES = (
    Device("phone", 0.1, 21.0, 0.5),
    Device("tablet", 0.0, 8.0, 0.5),
    Device("desktop", -0.2, 13.0, 0.6),
)
# Rows follow COUNTRIES, columns DEVICES: where paying by phone is usual, and where it is not.
PAYMENT = (
    (0.0, 0.0, 0.2),
    (-0.6, 0.0, 0.4),
    (0.1, 0.0, 0.1),
    (-0.3, 0.0, 0.3),
    (0.3, 0.0, -0.5),
    (0.5, 0.0, -0.6),
    (-0.1, 0.0, 0.3),
    (0.4, 0.0, -0.2),
)
AGE_WIDTH = 10.0
PRICE_WIDTH = 0.4
CLICK_INTERCEPT = -5.1
PURCHASE_INTERCEPT = -3.3


@dataclass(frozen=True)
class Impressions:
    """Records as columns of equal length; entry i of each is record i.

    Attributes:
        user: int64 [rows], the number in `user_id`.
        age: int64 [rows], years; -1 for a user without an age.
        country: int64 [rows], index into COUNTRIES.
        device: int64 [rows], index into DEVICES.
        hour: int64 [rows], 0 to 23.
        item: int64 [rows], the number in `item_id`.
        category: int64 [rows], index into CATEGORIES.
        price: float32 [rows], above 0, exactly as the record stores it.
        interests: bool [rows, len(CATEGORIES)], true at the user's interests.
    """

    user: Ints
    age: Ints
    country: Ints
    device: Ints
    hour: Ints
    item: Ints
    category: Ints
    price: NDArray[np.float32]
    interests: NDArray[np.bool_]


def click_probability(shown: Impressions) -> Floats:
    """P(click = 1 | record): float64 [rows], by the formula in the module docstring."""
    price_fit = np.exp(-0.5 * np.square(_price_ratio(shown) / PRICE_WIDTH))
    peak_hour = np.array([d.peak_hour for d in DEVICES])[shown.device]
    hour_fit = np.cos(2.0 * np.pi * (shown.hour - peak_hour) / 24.0)
    return _sigmoid(
        CLICK_INTERCEPT
        + np.array([c.click for c in COUNTRIES])[shown.country]
        + np.array([d.click for d in DEVICES])[shown.device]
        + np.array([c.click for c in CATEGORIES])[shown.category]
        + 0.08 * shown.interests.sum(axis=1)
        + 1.9 * _match(shown)
        + 1.4 * _age_fit(shown)
        + np.array([c.price_curve for c in CATEGORIES])[shown.category] * price_fit
        + np.array([d.hour_swing for d in DEVICES])[shown.device] * hour_fit
        + 0.17 * _quality(shown)
        + 0.17 * np.sin(78.233 * shown.user)
    )


def purchase_probability(shown: Impressions) -> Floats:
    """P(purchase = 1 | record, click = 1): float64 [rows], by the formula in the module docstring."""
    return _sigmoid(
        PURCHASE_INTERCEPT
        + np.array([c.purchase for c in COUNTRIES])[shown.country]
        + np.array(PAYMENT)[shown.country, shown.device]
        + 0.9 * _match(shown)
        + 0.9 * _age_fit(shown)
        - 0.8 * _price_ratio(shown)
        + 0.17 * _quality(shown)
    )


def _match(shown: Impressions) -> Floats:
    rows = np.arange(len(shown.category))
    return shown.interests[rows, shown.category].astype(np.float64)


def _age_fit(shown: Impressions) -> Floats:
    peak_age = np.array([c.peak_age for c in CATEGORIES])[shown.category]
    fit = np.exp(-0.5 * np.square((shown.age - peak_age) / AGE_WIDTH))
    return np.where(shown.age < 0, 0.0, fit)


def _price_ratio(shown: Impressions) -> Floats:
    typical = np.array([c.typical_price for c in CATEGORIES])[shown.category]
    return np.log(shown.price.astype(np.float64) / typical)


def _quality(shown: Impressions) -> Floats:
    return np.sin(12.9898 * shown.item)


def _sigmoid(logit: Floats) -> Floats:
    return 1.0 / (1.0 + np.exp(-logit))
