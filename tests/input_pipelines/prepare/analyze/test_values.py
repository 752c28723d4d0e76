"""values: exact counts while there are few values, bounded memory and stated errors beyond."""

from __future__ import annotations

import itertools
import random

import datasketches
import pytest

from input_pipelines.prepare.analyze.values import EXACT_LIMIT, LONGEST_WORD, ValueCounter

pytestmark = pytest.mark.no_tensorflow


def counter_of(*parts, limit=EXACT_LIMIT, **options):
    counter = ValueCounter(limit, **options)
    for part in parts:
        counter.add(part)
    return counter


def test_counts_and_their_order():
    counter = counter_of([b"oslo", b"rome", b"lima"], [b"rome", b"", b"oslo"])
    # By decreasing count, ties by word. The empty string is counted separately.
    assert counter.words() == [("oslo", 2), ("rome", 2), ("lima", 1)]
    assert (counter.total, counter.cardinality, counter.empty) == (6, 4, 1)
    assert counter.largest_error == 0


def test_integers_are_words():
    counter = counter_of([3, -1, 3, 2**62])
    assert counter.words() == [("3", 2), ("-1", 1), (str(2**62), 1)]
    assert counter.integers


@pytest.mark.parametrize(
    "values, integers",
    [
        ([b"12", b"-3", b""], True),
        ([b"12", b"x"], False),
        ([b"1.5"], False),
        ([b"", b""], False),
        ([b"12", b"\xff"], False),
    ],
)
def test_words_that_look_like_integers(values, integers):
    assert counter_of(values).integers is integers
    assert counter_of(values, [b"%d" % i for i in range(20)], limit=9).integers is (
        integers or set(values) == {b""}
    )


def test_values_that_are_not_words():
    long = b"x" * (LONGEST_WORD + 1)
    counter = counter_of([b"\xff", long, long, b"y" * (LONGEST_WORD + 1), b"x" * LONGEST_WORD])
    assert counter.words() == [("x" * LONGEST_WORD, 1)]
    assert (counter.not_word_count, counter.cardinality) == (4, 4)
    assert max(map(len, counter.exact)) == LONGEST_WORD  # Longer values are replaced by a digest.


def test_merging_in_any_order_gives_the_same():
    parts = [[b"a", b"b"], [b"b", b"c"] * 2, [b"", b"\xff", b"a"], [b"%d" % i for i in range(30)]]
    for limit in (100, 8):
        results = set()
        for order in itertools.permutations(parts):
            merged = ValueCounter(limit)
            for part in order:
                merged.merge(counter_of(part, limit=limit))
            results.add(
                (tuple(merged.words()), merged.total, merged.cardinality, merged.empty,
                 merged.not_word_count, merged.integers, merged.exact is None)
            )  # fmt: skip
        assert len(results) == 1
        words = dict(next(iter(results))[0])
        assert (words["b"], words["a"], words["7"]) == (3, 2, 1)


def test_one_value_more_than_the_limit_makes_the_counts_estimates():
    assert counter_of([1, 2, 3], limit=3).exact == {1: 1, 2: 1, 3: 1}
    counter = counter_of([1, 2, 3, 4, 4], limit=3)
    assert counter.exact is None
    # The values are still few enough for an exact sketch.
    assert counter.words() == [("4", 2), ("1", 1), ("2", 1), ("3", 1)]
    assert counter.cardinality == 4


def test_memory_is_bounded_whatever_the_cardinality():
    counter = ValueCounter(limit=1000)
    rng = random.Random(1)
    frequent = [b"often %d" % i for i in range(50)]
    largest = 0
    for start in range(0, 600_000, 20_000):
        values = [b"user-%09d" % i for i in range(start, start + 20_000)]
        values += [word for word in frequent for _ in range(10)]
        rng.shuffle(values)
        counter.add(values)
        if counter.exact is None:
            largest = max(largest, counter._words.num_active_items)
    capacity = 0.75 * 2**17
    assert counter.exact is None and 0 < largest <= capacity < 600_000
    assert len(counter._words.serialize()) < 4_000_000
    assert len(counter._distinct.serialize_compact()) < 17_000
    # 600,050 values: within 3 standard errors (of 0.8%) of the truth.
    assert counter.cardinality == pytest.approx(600_050, rel=0.025)
    words = counter.words()
    assert {word for word, _ in words[:50]} == {word.decode() for word in frequent}
    # Each occurs 300 times. A count is a lower bound, and too small by at most the error.
    assert all(300 - counter.largest_error <= count <= 300 for _, count in words[:50])
    assert counter.largest_error < 20


def test_many_floats_keep_nothing_but_their_cardinality():
    counter = counter_of([i / 7 for i in range(50_000)], limit=100, frequent=False)
    assert counter.exact is None and counter.words() == []
    assert counter.cardinality == pytest.approx(50_000, rel=0.025)


def test_the_library_is_deterministic():
    def run():
        counter = counter_of([b"%d" % (i * i % 1009) for i in range(5000)], limit=10)
        return counter.words(), counter.cardinality

    assert run() == run()
    assert datasketches.frequent_strings_sketch.get_epsilon_for_lg_size(17) < 3e-5


def test_an_estimate_does_not_depend_on_the_order_of_the_values():
    """A union of one sketch would be a copy, whose estimate does."""
    words = [b"word %d" % i for i in range(5000)]
    counters = [counter_of(words, limit=9), counter_of(words[::-1], limit=9)]
    counters.append(counter_of(words[2500:], limit=9))
    counters[-1].merge(counter_of(words[:2500], limit=9))
    assert len({counter.cardinality for counter in counters}) == 1
    assert counters[0].cardinality == pytest.approx(5000, rel=0.03)
