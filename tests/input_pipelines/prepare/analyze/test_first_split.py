"""How a first experiment splits rows: at random, unless ids would give answers away."""

from __future__ import annotations

import datetime

import pytest

from feature_specs.statistics import Cardinality, FeatureStatistics, Lengths, Statistics, Words
from input_pipelines.prepare.analyze import first_split
from input_pipelines.prepare.analyze.roles import Roles

pytestmark = pytest.mark.no_tensorflow


def statistics(ids=100, missing=0):
    feature = FeatureStatistics(
        dtype="int64", missing=missing, values=1000 - missing,
        lengths=Lengths(min=1, max=1, mean=1.0, counts={"1": 1000}),
        cardinality=Cardinality(value=ids, exact=True), numbers=None, words=None,
    )  # fmt: skip
    return Statistics(version=1, rows=1000, files=1, features={"user": feature})


SAME_SIDE = "all rows of one user are on the same side"


@pytest.mark.parametrize(
    "roles, ranking, value, why",
    [
        (Roles(), False, "rows", "rows at random"),
        (Roles(query="user", group="user"), True, "key:user", f"{SAME_SIDE}, to be ranked"),
        (Roles(group="user", shared_labels=("click",)), False, "key:user",
         f"{SAME_SIDE}, because they share click"),
        (Roles(group="user", of_group=("age", "city", "job", "zip")), False, "key:user",
         f"{SAME_SIDE}, because they share age, city, job, ..."),
        (Roles(group="user", of_group=("age", "city")), False, "rows",
         "rows at random, so rows of one user are on both sides; for a user that is new, use "
         "--split=key:user"),
    ],
)  # fmt: skip
def test_the_split_and_why(roles, ranking, value, why):
    assert first_split.default(statistics(), roles, {}, ranking=ranking) == (value, why)


@pytest.mark.parametrize(
    "form, missing, why",
    [
        ("%Y-%m-%d %H:%M", 0, "rows at random; to be judged by later rows, use --split=time:at"),
        ("%Y-%m-%d %H:%M", 1, "rows at random"),
        ("%d.%m.%Y %H:%M", 0, "rows at random"),  # As text, it does not grow with time.
    ],
)
def test_a_time_by_which_rows_can_be_split_is_named(form, missing, why):
    first = datetime.datetime(2026, 1, 28)
    texts = [(first + i * datetime.timedelta(hours=7)).strftime(form) for i in range(40)]
    feature = FeatureStatistics(
        dtype="string", missing=missing, values=40, numbers=None,
        lengths=Lengths(min=1, max=1, mean=1.0, counts={"1": 40}),
        cardinality=Cardinality(value=40, exact=True),
        words=Words(
            top=tuple((text, 1) for text in texts), exact=True, largest_error=0, integers=False,
            empty=0, not_words=0,
        ),
    )  # fmt: skip
    table = Statistics(version=1, rows=40, files=1, features={"at": feature})
    assert first_split.default(table, Roles(), {"at": form}, ranking=False) == ("rows", why)


@pytest.mark.parametrize("found", [statistics(ids=49), statistics(missing=1)])
def test_an_id_that_cannot_split(found):
    """With 49 ids, a tenth says little. A row without an id would have no side."""
    roles = Roles(group="user", shared_labels=("click",))
    assert first_split.default(found, roles, {}, ranking=False).value == "rows"


def test_queries_with_few_values_stay_together():
    roles = Roles(query="user", group="user")
    assert first_split.default(statistics(ids=20), roles, {}, ranking=True).value == "key:user"
