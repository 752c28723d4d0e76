"""distances: each measure against numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from feature_specs.statistics import Statistics
from input_pipelines.prepare.analyze import distances
from input_pipelines.prepare.analyze.distances import Part
from input_pipelines.prepare.analyze.feature_block import FeatureBlock
from input_pipelines.prepare.analyze.summary import FeatureSummary, RecordSummary
from input_pipelines.prepare.analyze.wire import parse_block


def analysed(values, **kwargs):
    """The statistics of the feature f: one record for each value; None is a record without one."""
    import tensorflow as tf

    records = []
    for value in values:
        example = tf.train.Example()
        items = [] if value is None else value if isinstance(value, list) else [value]
        for item in items:
            if isinstance(item, str):
                example.features.feature["f"].bytes_list.value.append(item.encode())
            elif isinstance(item, int):
                example.features.feature["f"].int64_list.value.append(item)
            else:
                example.features.feature["f"].float_list.value.append(item)
        records.append(example.SerializeToString())
    summary = RecordSummary(**kwargs)
    summary.add(parse_block(records), len(records), "a", 0)
    return summary.statistics(1).features.get("f")


def infinity(before, now, **kwargs):
    shares = [distances.shares(analysed(v, **kwargs)) for v in (before, now)]
    return distances.l_infinity(*shares)


def test_the_example_of_l_infinity():
    found = infinity(["rome", "rome", "oslo", "oslo"], ["rome", "rome", "rome", "lima"])
    assert found.value == 0.5
    assert found.moved == (
        "'oslo' 50.00% -> 0.00%", "'lima' 0.00% -> 25.00%", "'rome' 50.00% -> 75.00%",
    )  # fmt: skip
    assert found.parts == (
        Part("'rome'", 0.5, 0.75), Part("'oslo'", 0.5, 0.0), Part("'lima'", 0.0, 0.25),
    )  # fmt: skip


def test_values_that_few_rows_have_are_one_part_together():
    rare = [f"user {i}" for i in range(60)]
    found = infinity(["rome"] * 140 + rare, ["rome"] * 20 + rare[:30])  # 1 of 200, 1 of 50 rows.
    names = [part.name for part in found.parts]  # At most 12, and all others.
    assert (names[0], names[-1], len(names)) == ("'rome'", "all other values", 13)
    assert found.parts[0] == Part("'rome'", 0.7, 0.4)
    assert math.fsum(part.before for part in found.parts) == pytest.approx(1.0)
    assert math.fsum(part.now for part in found.parts) == pytest.approx(1.0)
    all_rare = infinity([f"user {i}" for i in range(200)], [f"user {i}" for i in range(300)])
    assert all_rare.parts == (Part("all other values", 1.0, 1.0),)


@pytest.mark.parametrize(
    "before, now, distance",
    [
        (["a", "b"], ["b", "a", "a", "b"], 0.0),
        ([1, 1, 2], [1, 2, 2], 1 / 3),  # 1: 2/3 -> 1/3
        ([["a", "b"], ["a"], []], ["a", "b"], 2 / 3 - 1 / 2),  # values of lists, one by one
        (["", "a"], ["a", "a"], 0.5),  # the empty string is a value
        ([None, None], ["a"], 1.0),
        ([None], [None, None], 0.0),
        (["a"], [None], 1.0),
        ([-1, 5], [5, -1], 0.0),
    ],
)
def test_l_infinity_by_hand(before, now, distance):
    assert infinity(before, now).value == pytest.approx(distance, abs=1e-12)
    assert infinity(now, before).value == pytest.approx(distance, abs=1e-12)


def test_bytes_that_are_not_text_count_as_one_value():
    import tensorflow as tf

    def shares(values):
        feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        features = tf.train.Features(feature={"f": feature})
        summary = RecordSummary()
        block = parse_block([tf.train.Example(features=features).SerializeToString()])
        summary.add(block, 1, "a", 0)
        return distances.shares(summary.statistics(1).features["f"])

    found = distances.l_infinity(shares([b"\xff", b"a"]), shares([b"a", b"a", b"\xfe", b"\xfd"]))
    assert (found.value, found.moved) == (0.0, ())
    found = distances.l_infinity(shares([b"a"]), shares([b"a", b"\xfe"]))
    assert found.moved == ("(no text) 0.00% -> 50.00%", "'a' 100.00% -> 50.00%")


def test_a_value_that_is_not_listed_counts_with_its_largest_possible_share():
    # 1,500 words of one value each: 1,000 are listed, and a 1,001st may have had 1 of 1,500.
    before = [f"w{i:04}" for i in range(1500)]
    assert infinity(before, before).value == 0.0
    found = infinity(before, ["w1499"] * 3 + ["w0000"] * 997)
    # w0000: 1/1500 -> 997/1000. w1499 is not listed before, so it had 1/1500 at most.
    assert found.value == pytest.approx(0.997 - 1 / 1500)
    assert found.moved[:2] == (
        "'w0000' 0.07% -> 99.70%", "'w1499' at most 0.07% -> 0.30%",
    )  # fmt: skip


def test_estimated_counts_are_intervals():
    before = ["a"] * 600 + [f"w{i:03}" for i in range(400)]
    now = ["a"] * 300 + [f"w{i:03}" for i in range(200)]
    assert analysed(before, limit=100).words.exact is False
    assert infinity(before, now, limit=100).value == pytest.approx(0.0, abs=0.002)
    assert infinity(before, ["a"] * 500, limit=100).value == pytest.approx(0.4, abs=0.002)


def test_float_labels_of_two_classes_count_zeros():
    found = distances.l_infinity(
        distances.shares(analysed([0.0, 0.0, 1.0, 1.0]), binary=True),
        distances.shares(analysed([0.0, 1.0, 1.0, 1.0, math.nan]), binary=True),
    )
    assert found.value == pytest.approx(0.3)  # 0: 2/4 -> 1/5
    assert found.moved == (
        "'0' 50.00% -> 20.00%", "'nan' 0.00% -> 20.00%", "'1' 50.00% -> 60.00%",
    )  # fmt: skip


def test_the_example_of_jensen_shannon():
    # Of all values 3/4 are 1 and 1/4 are 3: the bins are up to 1 and over 1; P = (1/2, 1/2).
    found = distances.jensen_shannon(analysed([1.0, 3.0]), analysed([1.0, 1.0]))
    assert found.value == pytest.approx(
        (0.5 * math.log2(2 / 3) + 0.5 * math.log2(2)) / 2 + math.log2(4 / 3) / 2
    )
    assert f"{found.value:.4f}" == "0.3113"
    assert found.moved == ("over 1 50.00% -> 0.00%", "up to 1 50.00% -> 100.00%")
    assert found.parts == (Part("up to 1", 0.5, 1.0), Part("over 1", 0.5, 0.0))


@pytest.mark.parametrize(
    "before, now, distance",
    [
        ([1.0, 2.0], [2.0, 1.0, 1.0, 2.0], 0.0),
        ([5, 5], [7, 7], 1.0),  # no value in common: one bit
        ([7, 7], [5, 5], 1.0),
        ([1.0], [None], 1.0),
        ([None], [None], 0.0),
        # NaN has a separate bin: P = (1, 0), Q = (1/2, 1/2).
        ([1.0, 1.0], [1.0, math.nan], 0.3112781244591328),
        ([math.inf], [math.nan], 0.0),
        ([math.inf], [1.0], 1.0),
        # P = (3/4, 1/4), Q = (1/4, 3/4), M = (1/2, 1/2): 3/4 log2(3/2) + 1/4 log2(1/2).
        ([1, 1, 1, 2], [1, 2, 2, 2], 0.75 * math.log2(1.5) - 0.25),
        ([[1.0, 2.0], [], [1.0, 2.0]], [[1.0], [2.0]], 0.0),
    ],
)
def test_jensen_shannon_by_hand(before, now, distance):
    one, two = analysed(before), analysed(now)
    assert distances.jensen_shannon(one, two).value == pytest.approx(distance, abs=1e-12)
    assert distances.jensen_shannon(two, one).value == pytest.approx(distance, abs=1e-12)


def test_jensen_shannon_of_normal_numbers():
    rng = np.random.default_rng(1)

    def sample(count, mean=0.0):
        summary = RecordSummary()
        block = FeatureBlock(
            "float32", rows=np.arange(count), lengths=np.ones(count, np.int64),
            values=rng.normal(mean, 1, count).astype(np.float32),
        )  # fmt: skip
        summary.add({"f": [block]}, count, "a", 0)
        return summary.statistics(1).features["f"]

    base = sample(20_000)  # Too many to count exactly: the quantiles come from a t-digest.
    assert not base.numbers.quantiles_exact
    # Two samples of one distribution: about 9 / (4 n ln 2) = 0.0002.
    assert distances.jensen_shannon(base, sample(20_000)).value < 0.001
    # N(0, 1) compared with N(1, 1), by numeric integration. Bins lose a little of it.
    x = np.linspace(-10, 11, 200_001)
    p, q = (np.exp(-((x - mean) ** 2) / 2) / math.sqrt(2 * math.pi) for mean in (0, 1))
    m = (p + q) / 2
    exact = (p * np.log2(p / m) + q * np.log2(q / m)).sum() / 2 * (x[1] - x[0])
    moved = distances.jensen_shannon(base, sample(20_000, mean=1.0)).value
    assert 0.95 * exact < moved < 1.05 * exact and 0.16 < exact < 0.162


def divergence(p, q):
    """In bits, of two lists of shares."""
    m = (np.asarray(p) + q) / 2
    parts = [x[x > 0] * np.log2(x[x > 0] / m[x > 0]) for x in (np.asarray(p), np.asarray(q))]
    return (parts[0].sum() + parts[1].sum()) / 2


def summarized(values):
    summary = FeatureSummary("f")
    block = FeatureBlock(
        "float32", np.arange(len(values)), np.ones(len(values), np.int64), values.astype("f")
    )
    summary.add(block, "a", 0)
    return summary.statistics(len(values))


BASES = {
    "normal": lambda rng, n: rng.normal(size=n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "digits": lambda rng, n: rng.integers(0, 10, n).astype(float),
    "hundred": lambda rng, n: rng.integers(0, 100, n).astype(float),
    "mostly 0": lambda rng, n: np.where(rng.random(n) < 0.8, 0, rng.exponential(size=n)),
}


@pytest.mark.parametrize("base", BASES)
def test_rows_that_move_to_one_value_are_seen(base):
    """The bound of the docstring, for rare and frequent, near and far values."""
    # A percentile that may hide one of a hundred values is a large part of its share.
    bound = 0.025 if base == "hundred" else 0.015
    rng = np.random.default_rng(3)
    before = BASES[base](rng, 20_000)
    one = summarized(before)
    for share in (0.003, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.09, 0.2, 0.5):
        for value in (1e6, -1e6, 12.5, 0.5, 1.0):
            moved = rng.permutation(len(before)) < share * len(before)
            now = np.where(moved, value, before)
            p, q = np.mean(before == value), np.mean(now == value)
            exact = divergence([p, 1 - p], [q, 1 - q])
            found = distances.jensen_shannon(one, summarized(now)).value
            assert abs(found - exact) <= max(bound, 0.1 * exact), (share, value, found, exact)


@pytest.mark.parametrize("mean, scale", [(0.1, 1), (0.3, 1), (3, 1), (0, 1.2), (0, 3), (0, 0.3)])
def test_normal_numbers_with_another_mean_or_scale(mean, scale):
    rng = np.random.default_rng(4)
    x = np.linspace(-20, 20, 400_001)
    p, q = (np.exp(-(((x - m) / s) ** 2) / 2) / s for m, s in ((0, 1), (mean, scale)))
    exact = divergence(p / p.sum(), q / q.sum())
    one, two = (summarized(rng.normal(m, s, 20_000)) for m, s in ((0, 1), (mean, scale)))
    assert abs(distances.jensen_shannon(one, two).value - exact) <= max(0.01, 0.1 * exact)


@pytest.mark.parametrize("digits", [2, 10, 25, 40, 60, 80, 100, 150, 1000])
def test_two_samples_of_integers_are_near(digits):
    rng = np.random.default_rng(6)
    one, two = (summarized(rng.integers(0, digits, 20_000)) for _ in range(2))
    assert distances.jensen_shannon(one, two).value < 0.0025


def test_what_moved_far_away_has_a_bin():
    rng = np.random.default_rng(5)
    before = rng.normal(size=20_000)
    now = np.where(np.arange(20_000) < 1800, 1e6, before)
    found = distances.jensen_shannon(summarized(before), summarized(now))
    assert found.value == pytest.approx(divergence([0, 1], [0.09, 0.91]), abs=0.01)
    assert found.value > 0.04
    name, _, shares = found.moved[0].rpartition(" 0.00% -> ")
    assert name.startswith(("over ", "from ")) and 8.5 < float(shares.rstrip("%")) < 10.1


def test_missing_by_hand():
    before, now = analysed([1, None, 2, 3]), analysed([None, 1, None, None])
    found = distances.missing(before, now, rows_before=4, rows=4)
    assert (found.value, found.moved) == (0.5, ("missing 25.00% -> 75.00%",))
    assert found.parts == (Part("missing", 0.25, 0.75),)
    assert distances.missing(before, None, rows_before=4, rows=9).value == 0.75


def test_statistics_of_before_keep_their_distances(tmp_path):
    from feature_specs import statistics

    found = analysed(["a", "b"])
    path = tmp_path / "statistics.json"
    path.write_text(Statistics(rows=2, files=1, features={"f": found}).as_text())
    again = statistics.load(path).features["f"]
    assert distances.l_infinity(distances.shares(found), distances.shares(again)).value == 0.0
