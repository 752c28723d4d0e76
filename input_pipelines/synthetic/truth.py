"""The model behind the synthetic impression log: users, items, and the true probabilities.

The two probabilities depend only on the values in a record, not on a seed or a hidden state. Anyone
who has a record can compute them from the tables below. This module writes no file and keeps no
random state: `input_pipelines.synthetic.impression_log` passes a random generator and writes the
files.

With `sigmoid(t) = 1 / (1 + exp(-t))`, and tables and constants named as below:

    match       = 1 if item_category is one of interests, else 0
    age_fit     = exp(-((user_age - category.peak_age) / AGE_WIDTH)^2 / 2)
    price_ratio = log(item_price / category.typical_price)
    price_fit   = exp(-(price_ratio / PRICE_WIDTH)^2 / 2)
    hour_fit    = cos(2 pi (hour - device.peak_hour) / 24)
    quality     = sin(12.9898 * number in item_id)        looks random, cannot be learned
    propensity  = sin(78.233 * number in user_id)         also

    true_click_probability = sigmoid(CLICK_INTERCEPT
        + country.click + device.click + category.click
        - 0.02 * (user_age - 44) - 0.15 * log(item_price / 40)
        + category.pull * match + 0.5 * age_fit
        + category.price_curve * price_fit + device.hour_swing * hour_fit
        + 0.14 * quality + 0.14 * propensity)

    true_purchase_probability = sigmoid(PURCHASE_INTERCEPT
        + country.purchase + PAYMENT[country, device]
        + 0.4 * category.pull * match + 0.9 * age_fit - 1.2 * price_ratio
        + 0.14 * quality)

Without a user_age, both `age_fit` and the term in `user_age - 44` are 0.

`match`, `age_fit`, `price_fit`, `hour_fit` and PAYMENT are interactions of two features. A linear
model over single features cannot express them. `match` is by far the strongest. A positive
`price_curve` is a bump: the category sells best at its typical price. A negative one is a U:
bargains and luxury sell best. Purchase shares `match`, `age_fit` and `quality` with click. Click
has about twenty times as many positives, so learning both together can help. `quality` and
`propensity` have a standard deviation of 0.14 / sqrt(2) = 0.1. They are real effects, but not worth
the parameters that a model would need to learn them.

A worked example: user 0 is 34, from the US, and only interested in electronics. On a phone at hour
21, the user sees item 0: electronics for 150.0, the typical price. The click logit is
-4.72 + 0.7 + 0.25 + 0 + 0.2 - 0.198 + 1.9 + 0.5 + 0.25 + 0.35 = -0.768, so the probability is
0.317. The purchase logit is -3.75 + 0.2 + 0.2 + 0.76 + 0.9 - 0 + 0 = -1.69, so the probability is
0.156.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

USERS = 20_000
ITEMS_ON_FIRST_DAY = 800
NEW_ITEMS_A_DAY = 40
LAUNCH_DAYS = 2  # in this time a new item is shown as often as the average one
SHARE_WITHOUT_AGE = 0.03


class Category(NamedTuple):
    """An item category: its share of items and interests in percent, and its effects."""

    name: str
    share: float
    click: float
    pull: float
    peak_age: float
    typical_price: float
    price_curve: float


class Country(NamedTuple):
    """A country: its share of users in percent, and its effects on the two logits."""

    code: str
    share: float
    click: float
    purchase: float


class Device(NamedTuple):
    """A device: its share in percent, its effect on the click logit, and its daily rhythm."""

    name: str
    share: float
    click: float
    peak_hour: float
    hour_swing: float


CATEGORIES = (
    Category("beauty", 6.5, 0.7, 1.0, 30.0, 20.0, 0.25),
    Category("books", 2.6, 0.2, 0.3, 50.0, 15.0, 0.2),
    Category("electronics", 21.0, 0.0, 1.9, 34.0, 150.0, 0.25),
    Category("fashion", 41.0, 0.3, 2.1, 25.0, 45.0, -0.25),
    Category("games", 11.0, 0.5, 1.7, 20.0, 35.0, 0.25),
    Category("garden", 1.8, -0.5, 0.2, 64.0, 40.0, 0.2),
    Category("grocery", 1.8, -0.9, 0.2, 48.0, 8.0, -0.2),
    Category("health", 2.0, -0.7, 0.2, 68.0, 25.0, 0.2),
    Category("home", 2.6, 0.0, 0.3, 44.0, 70.0, -0.2),
    Category("sports", 4.2, -0.2, 0.6, 38.0, 60.0, -0.25),
    Category("toys", 2.3, -0.3, 0.3, 36.0, 22.0, -0.2),
    Category("travel", 3.2, -0.6, 0.4, 58.0, 300.0, 0.2),
)
COUNTRIES = (
    Country("US", 34.0, 0.7, 0.2),
    Country("DE", 16.0, -0.4, 0.1),
    Country("GB", 14.0, 0.3, 0.2),
    Country("FR", 10.0, 0.0, -0.1),
    Country("BR", 9.0, 0.9, -0.4),
    Country("IN", 8.0, 0.5, -0.3),
    Country("JP", 5.0, -1.1, 0.3),
    Country("SE", 4.0, -0.7, 0.0),
)
DEVICES = (
    Device("phone", 60.0, 0.25, 21.0, 0.35),
    Device("tablet", 10.0, 0.0, 19.0, 0.35),
    Device("desktop", 30.0, -0.5, 13.0, 0.35),
)
# Rows are COUNTRIES, columns are DEVICES: how usual it is to pay by phone in a country.
PAYMENT = (
    (0.2, 0.0, -0.2),
    (-0.7, 0.0, 0.6),
    (0.2, 0.0, 0.1),
    (-0.5, 0.0, 0.5),
    (0.4, 0.0, -0.7),
    (0.6, 0.0, -0.8),
    (-0.2, 0.0, 0.4),
    (0.6, 0.0, -0.2),
)
INTEREST_COUNT_SHARES = (18, 50, 21, 8, 2, 1)  # percent of users with 0, 1, ... 5 interests
HOUR_SHARES = (3, 2, 1, 1, 1, 2, 3, 4, 5, 5, 5, 5, 6, 6, 5, 5, 5, 5, 6, 7, 8, 8, 7, 5)
AGE_WIDTH = 12.0
PRICE_WIDTH = 0.6
CLICK_INTERCEPT = -4.72
PURCHASE_INTERCEPT = -3.75


@dataclasses.dataclass(frozen=True)
class Population:
    """Users and items, the same on every day. Entry i of each array is user i or item i.

    The age -1 means "unknown". Countries, devices and categories are indices into the tables.
    `user_weight` is how often a user sees an item, and `item_weight` how often an item is shown;
    both are relative.
    """

    user_weight: Floats
    user_age: Ints
    user_country: Ints
    user_device: Ints
    user_interests: Bools
    item_first_day: Ints
    item_weight: Floats
    item_category: Ints
    item_price: Floats


@dataclasses.dataclass(frozen=True)
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
        interests: bool [rows, len(CATEGORIES)], true for the user's interests.
    """

    user: Ints
    age: Ints
    country: Ints
    device: Ints
    hour: Ints
    item: Ints
    category: Ints
    price: NDArray[np.float32]
    interests: Bools


def click_probability(shown: Impressions) -> Floats:
    """P(click = 1 | record): float64 [rows], with the formula in the module docstring."""
    price_fit = np.exp(-0.5 * np.square(_price_ratio(shown) / PRICE_WIDTH))
    peak_hour = np.array([d.peak_hour for d in DEVICES])[shown.device]
    hour_fit = np.cos(2.0 * np.pi * (shown.hour - peak_hour) / 24.0)
    return _sigmoid(
        CLICK_INTERCEPT
        + np.array([c.click for c in COUNTRIES])[shown.country]
        + np.array([d.click for d in DEVICES])[shown.device]
        + np.array([c.click for c in CATEGORIES])[shown.category]
        - 0.02 * np.where(shown.age < 0, 0.0, shown.age - 44.0)
        - 0.15 * np.log(shown.price.astype(np.float64) / 40.0)
        + _pull(shown)
        + 0.5 * _age_fit(shown)
        + np.array([c.price_curve for c in CATEGORIES])[shown.category] * price_fit
        + np.array([d.hour_swing for d in DEVICES])[shown.device] * hour_fit
        + 0.14 * _quality(shown)
        + 0.14 * np.sin(78.233 * shown.user)
    )


def purchase_probability(shown: Impressions) -> Floats:
    """P(purchase = 1 | record, click = 1): float64 [rows]; see the module docstring."""
    return _sigmoid(
        PURCHASE_INTERCEPT
        + np.array([c.purchase for c in COUNTRIES])[shown.country]
        + np.array(PAYMENT)[shown.country, shown.device]
        + 0.4 * _pull(shown)
        + 0.9 * _age_fit(shown)
        - 1.2 * _price_ratio(shown)
        + 0.14 * _quality(shown)
    )


def draw_population(random: np.random.Generator, *, days: int) -> Population:
    """Draws the users, and all items that will exist within `days`."""
    items = ITEMS_ON_FIRST_DAY + NEW_ITEMS_A_DAY * (days - 1)
    age = np.round(18.0 + 61.0 * random.beta(1.6, 2.2, USERS)).astype(np.int64)
    age[random.random(USERS) < SHARE_WITHOUT_AGE] = -1
    category_shares = [category.share for category in CATEGORIES]
    # Gumbel-max: the k largest values of log(share) + Gumbel noise are k draws without replacement.
    score = np.log(category_shares) + random.gumbel(size=(USERS, len(CATEGORIES)))
    place = np.argsort(np.argsort(-score, axis=1), axis=1)
    category = _draw(random, category_shares, items)
    typical_price = np.array([c.typical_price for c in CATEGORIES])[category]
    batch = (np.arange(items) - ITEMS_ON_FIRST_DAY) // NEW_ITEMS_A_DAY
    return Population(
        # Zipf with an offset (Mandelbrot), so that no single user has a tenth of the log.
        user_weight=np.reciprocal(random.permutation(USERS) + 15.0, dtype=np.float64),
        user_age=age,
        user_country=_draw(random, [country.share for country in COUNTRIES], USERS),
        user_device=_draw(random, [device.share for device in DEVICES], USERS),
        user_interests=place < _draw(random, INTEREST_COUNT_SHARES, USERS)[:, np.newaxis],
        item_first_day=np.maximum(0, batch + 1),
        item_weight=random.lognormal(0.0, 0.8, items),
        item_category=category,
        item_price=typical_price * random.lognormal(0.0, 0.5, items),
    )


def draw_impressions(
    random: np.random.Generator, population: Population, *, day: int, rows: int
) -> Impressions:
    """Draws `rows` independent impressions of the given day (0 is the first)."""
    age_of_item = day - population.item_first_day
    weight = np.where(age_of_item < 0, 0.0, population.item_weight)
    launched = (population.item_first_day > 0) & (age_of_item >= 0) & (age_of_item < LAUNCH_DAYS)
    weight[launched] = weight[(age_of_item >= 0) & ~launched].mean()
    user = _draw(random, population.user_weight, rows)
    item = _draw(random, weight, rows)
    some_device = _draw(random, [device.share for device in DEVICES], rows)
    on_usual_device = random.random(rows) < 0.7
    offer = random.lognormal(0.0, 0.2, rows)
    price = np.maximum(0.01, np.round(population.item_price[item] * offer, 2))
    return Impressions(
        user=user,
        age=population.user_age[user],
        country=population.user_country[user],
        device=np.where(on_usual_device, population.user_device[user], some_device),
        hour=_draw(random, HOUR_SHARES, rows),
        item=item,
        category=population.item_category[item],
        price=price.astype(np.float32),
        interests=population.user_interests[user],
    )


def _draw(random: np.random.Generator, shares: Sequence[float] | Floats, size: int) -> Ints:
    """Indices drawn with probabilities proportional to `shares`: int64 [size]."""
    cumulated = np.cumsum(np.asarray(shares, np.float64))
    drawn = np.searchsorted(cumulated, random.random(size) * cumulated[-1], side="right")
    result: Ints = drawn.astype(np.int64)
    return result


def _pull(shown: Impressions) -> Floats:
    match = shown.interests[np.arange(len(shown.category)), shown.category]
    return np.where(match, np.array([c.pull for c in CATEGORIES])[shown.category], 0.0)


def _age_fit(shown: Impressions) -> Floats:
    peak_age = np.array([c.peak_age for c in CATEGORIES])[shown.category]
    fit = np.exp(-0.5 * np.square((shown.age - peak_age) / AGE_WIDTH))
    return np.where(shown.age < 0, 0.0, fit)


def _price_ratio(shown: Impressions) -> Floats:
    typical_price = np.array([c.typical_price for c in CATEGORIES])[shown.category]
    result: Floats = np.log(shown.price.astype(np.float64) / typical_price)
    return result


def _quality(shown: Impressions) -> Floats:
    result: Floats = np.sin(12.9898 * shown.item)
    return result


def _sigmoid(logit: Floats) -> Floats:
    return 1.0 / (1.0 + np.exp(-logit))
