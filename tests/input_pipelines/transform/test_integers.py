"""int64 features near 2**24, 2**31, 2**53 and 2**62, for every kind of column and normalizer.

The expected numbers are computed in exact arithmetic, with Python's integers and fractions.
"""

from __future__ import annotations

import itertools
import math
import typing
from fractions import Fraction

import numpy as np
import pytest
import tensorflow as tf

import feature_specs
from feature_specs.kinds import COLUMN_KINDS, normalizers
from feature_specs.reference import columns
from input_pipelines.record_files import writing
from input_pipelines.transform import serving_inputs
from input_pipelines.transform.transforms import Transform

CENTERS = [2**24, 2**31, 2**53, 2**62]
OFFSETS = [-1000, -1, 0, 1, 2, 3, 7, 60, 999]
LEAST, MOST = -(2**63), 2**63 - 1

# By the only key of a normalizer: its entry for numbers near `center`, and for small numbers.
NORMALIZERS = {
    "log1p": lambda center: "log1p",
    "zscore": lambda center: {"zscore": {"mean": center + 3, "stddev": 7.3}},
    "minmax": lambda center: {"minmax": {"min": center - 2, "max": center + 60}},
    "clip": lambda center: {"clip": {"min": center - 1, "max": center + 40}},
}
SMALL = {
    "log1p": "log1p",
    "zscore": {"zscore": {"mean": 0.25, "stddev": 0.001}},
    "minmax": {"minmax": {"min": -0.5, "max": 2.5}},
    "clip": {"clip": {"min": -0.5, "max": 0.5}},
}


def test_every_normalizer_is_here():
    union, *_ = typing.get_args(normalizers.Normalizer)
    kinds = [typing.get_args(option)[0] for option in typing.get_args(union)]
    assert {next(iter(kind.model_fields)) for kind in kinds} == set(NORMALIZERS)


def chains(center):
    """All sequences of up to two normalizers, with numbers that suit integers near `center`."""
    yield ()
    for first in NORMALIZERS:
        entry = NORMALIZERS[first](center)
        yield (entry,)
        for second in NORMALIZERS:
            if first == "clip":
                yield entry, NORMALIZERS[second](center)
            elif first == "log1p" and second != "log1p":
                log = math.log1p(abs(center))
                small = {
                    "zscore": {"mean": log, "stddev": 0.5},
                    "minmax": {"min": log - 1, "max": log + 1},
                    "clip": {"min": log - 1, "max": log + 1},
                }
                yield entry, {second: small[second]}
            else:
                yield entry, SMALL[second]


def exact(chain, value):
    """The chain of one integer, and a bound of the float32 error. None without a logarithm."""
    number, error, scale, logged = Fraction(value), 0.0, 1.0, False
    for entry in chain:
        kind = "log1p" if entry == "log1p" else next(iter(entry))
        if kind == "log1p":
            if number <= -1:
                return None
            slope = 1 / (1 + float(number))
            error = (error or 2**-21 * (abs(number) + 1 / scale)) * slope
            number, logged = Fraction(math.log1p(number)), True
            error += 2**-22 * abs(number)
            continue
        options = entry[kind]
        if kind == "clip":
            number = min(max(number, Fraction(options["min"])), Fraction(options["max"]))
            continue
        center, divisor = (
            (Fraction(options["mean"]), Fraction(options["stddev"]))
            if kind == "zscore"
            else (Fraction(options["min"]), Fraction(options["max"]) - Fraction(options["min"]))
        )
        if logged:
            error = (error + 2**-22 * (abs(number) + abs(center))) / divisor
        number, scale = (number - center) / divisor, scale * float(divisor)
    return number, float(error) if logged else float(2**-21 * (abs(number) + 1 / scale))


def values_near(center):
    return [center + offset for offset in OFFSETS]


def spec_of(columns, features):
    """A spec in which each column has a group. An indicator reads the ids."""
    numbers = {n for n, c in columns.items() if {"numeric", "sequence_numeric", "ragged"} & {*c}}
    hot = {f"{n}_hot": {"indicator": n} for n in columns if n not in numbers}
    return feature_specs.parse(
        {
            "features": features,
            "columns": {**columns, **hot},
            "groups": {f"of_{name}": [name] for name in (*sorted(numbers), *hot)},
            "labels": {"click": {"dtype": "int64"}},
            "objectives": {"click": {"head": "binary"}},
        }
    )


def serialized(rows):
    return [writing.example(row).SerializeToString() for row in rows]


def by_column(read):
    """The columns of `read(graph)` as lists, each by its rows."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        features = read()
        session.run(tf.compat.v1.tables_initializer())
        return {
            name: value.to_list() if hasattr(value, "to_list") else value.tolist()
            for name, value in session.run(features).items()
        }


NUMBERS = [kind for kind, model in COLUMN_KINDS.items() if "normalizer" in model.model_fields]


@pytest.mark.parametrize("kind", NUMBERS)
def test_normalizers_of_integers_are_exact(kind):
    single = kind == "numeric"
    made, features, expected = {}, {}, {}
    centers = [*CENTERS, *(-center for center in CENTERS if single)]
    for center in centers:
        source = f"x{center}".replace("-", "minus")
        features[source] = {"dtype": "int64", **({} if single else {"shape": "variable"})}
        for number, chain in enumerate(chains(center)):
            wanted = [exact(chain, value) for value in values_near(center)]
            if None not in wanted:
                name = f"{source}_{number}"
                made[name] = {kind: source, "normalizer": list(chain)}
                expected[name] = chain, values_near(center), wanted
    rows = [{source: [] for source in features} for _ in OFFSETS]
    for center in centers:
        for row, value in zip(rows, values_near(center)):
            row[f"x{center}".replace("-", "minus")] = value if single else [value]
    spec = spec_of(made, features)
    found = by_column(lambda: Transform(spec).features(tf.constant(serialized(rows))))
    assert len(expected) > 70
    for name, (chain, values, wanted) in expected.items():
        for value, (number, error), row in zip(values, wanted, found[name]):
            assert abs(row[0] - number) <= error, (name, chain, value, row[0], float(number))


def test_an_integer_that_is_further_away_than_an_int64_can_hold():
    extremes = [LEAST, LEAST + 1, -1, 0, 1, MOST]
    made = {
        f"z{i}": {"numeric": "x", "normalizer": {"zscore": {"mean": mean, "stddev": 1e15}}}
        for i, mean in enumerate([LEAST, -(2**62), 3, 2**62, MOST, 1e30])
    }
    spec = spec_of(made, {"x": {"dtype": "int64"}})
    rows = [{"x": value} for value in extremes]
    found = by_column(lambda: Transform(spec).features(tf.constant(serialized(rows))))
    for name, column in made.items():
        mean = int(column["normalizer"]["zscore"]["mean"])
        wanted = [float(Fraction(value - mean, 10**15)) for value in extremes]
        np.testing.assert_allclose(np.ravel(found[name]), wanted, rtol=3e-7)


def bucket_columns(center):
    """Bucketized columns with boundaries at integers and between them, with their normalizers."""
    plain = [center - 1, center, center + 0.5, center + 2, center + 7]
    plain = [limit for limit, after in zip(plain, [*plain[1:], None]) if limit != after]
    yield (), plain
    yield (), [center + i - 100 for i in range(200)]  # Too many to compare one by one.
    yield (), [float(-(2**70)), center, float(2**70)]
    for chain in chains(center):
        at = [exact(chain, center + offset) for offset in (-1, 1, 3)]
        if None not in at:
            # Where a float64 logarithm of neighbors is equal, the boundary is between others.
            away = 2**-40 * (1 + abs(at[0][0])) if "log1p" in chain else 0
            yield chain, sorted({float(number + away) for number, _ in at})


def test_boundaries_of_integers_are_exact_in_both_readings():
    made, features, expected = {}, {}, {}
    rows = [{} for _ in OFFSETS]
    for center in [*CENTERS, *(-center for center in CENTERS)]:
        source = f"x{center}".replace("-", "minus")
        features[source] = {"dtype": "int64"}
        for row, value in zip(rows, values_near(center)):
            row[source] = value
        for number, (chain, limits) in enumerate(bucket_columns(center)):
            name = f"{source}_{number}"
            below = source
            if chain:
                below = f"{name}_n"
                made[below] = {"numeric": source, "normalizer": list(chain)}
            made[name] = {"bucketized": below, "boundaries": limits}
            found = [exact(chain, value) for value in values_near(center)]
            if None in found:
                del made[name], made[below]
                continue
            expected[name] = [
                sum(number >= Fraction(limit) for limit in limits) for number, _ in found
            ]
    spec = spec_of(made, features)
    examples = serialized(rows)
    found = by_column(lambda: Transform(spec).features(tf.constant(examples)))
    assert len(expected) > 100
    assert {name: found[name] for name in expected} == expected

    def reference():
        parsed = tf.io.parse_example(examples, columns.feature_parse_dict(spec))
        hot = {name: columns.feature_column(spec, f"{name}_hot") for name in expected}
        layer = tf.compat.v1.keras.layers.DenseFeatures
        return {name: tf.argmax(layer([column])(parsed), 1) for name, column in hot.items()}

    expected = dict(itertools.islice(expected.items(), 0, None, 9))
    assert by_column(reference) == expected


def test_the_reference_and_serving_read_integers_as_training_does():
    center = 1767225600  # Seconds since 1970: float32 has 1767225600 and 1767225728.
    chain = [{"zscore": {"mean": center + 50.5, "stddev": 30.0}}, {"clip": {"min": -1, "max": 1}}]
    made = {
        "z": {"numeric": "t", "normalizer": chain},
        "b": {"bucketized": "t", "boundaries": [center + 1, center + 60]},
        "zb": {"bucketized": "z", "boundaries": [-0.5, 0.25]},
        "step": {"sequence_numeric": "times", "normalizer": chain},
    }
    features = {"t": {"dtype": "int64"}, "times": {"dtype": "int64", "shape": "variable"}}
    spec = spec_of(made, features)
    values = [center + offset for offset in (0, 1, 36, 58, 59, 60, 100)]
    rows = [{"t": value, "times": [value]} for value in values]
    z = [min(max((value - center - 50.5) / 30, -1), 1) for value in values]
    examples = serialized(rows)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        inputs = serving_inputs.serving_inputs(spec)
        answers = [
            session.run(inputs.features, {inputs.examples: examples}),
            session.run(
                inputs.raw_features,
                {
                    inputs.raw["t"]: np.array(values),
                    inputs.raw["times"]: np.array(values)[:, np.newaxis],
                },
            ),
        ]
        for answer in answers:
            np.testing.assert_allclose(answer["z"][:, 0], z, rtol=1e-6)
            np.testing.assert_allclose(answer["step"].flat_values, z, rtol=1e-6)
            assert answer["b"].tolist() == [0, 1, 1, 1, 1, 2, 2]
            assert answer["zb"].tolist() == [0, 0, 1, 2, 2, 2, 2]
        parsed = tf.io.parse_example(examples, columns.feature_parse_dict(spec))
        layer = tf.compat.v1.keras.layers.DenseFeatures
        named = {n: columns.feature_column(spec, n) for n in ("z", "b_hot", "zb_hot")}
        dense = session.run({n: layer([column])(parsed) for n, column in named.items()})
    np.testing.assert_allclose(dense["z"][:, 0], z, rtol=1e-6)
    assert dense["b_hot"].argmax(1).tolist() == [0, 1, 1, 1, 1, 2, 2]
    assert dense["zb_hot"].argmax(1).tolist() == [0, 0, 1, 2, 2, 2, 2]


# By kind: columns that read the int64 feature `x` as ids.
IDS = {
    "identity": lambda near: {"identity": "x", "size": 2**62, "default_id": 0},
    "vocabulary": lambda near: {"vocabulary": "x", "list": near},
    "hash_bucket": lambda near: {"hash_bucket": "x", "size": 2**40},
    "growing": lambda near: {"growing": "x", "rows": 9},
    "crossed": lambda near: {"crossed": ["x", "other"], "size": 2**40},
    "is_missing": lambda near: {"is_missing": "x"},
    "time": lambda near: {"time": "x", "part": "hour", "format": "milliseconds"},
}
# They read the ids of other columns.
OVER_IDS = {"weighted", "indicator", "embedding"}


def test_neighboring_integers_are_different_ids():
    assert {*NUMBERS, "bucketized", *IDS, *OVER_IDS} == set(COLUMN_KINDS)
    near = [value for center in CENTERS for value in values_near(center) if value < 2**62]
    spec = spec_of(
        {kind: column(near) for kind, column in IDS.items()},
        {"x": {"dtype": "int64", "default": 2**53 + 1}, "other": {"dtype": "int64"}},
    )
    rows = [{"x": value, "other": 1} for value in near]
    with tf.Graph().as_default():
        found = by_column(lambda: Transform(spec).features(tf.constant(serialized(rows))))
    assert found["identity"] == near
    assert found["vocabulary"] == list(range(len(near)))
    hashed = tf.strings.to_hash_bucket_fast(list(map(str, near)), 2**40)
    assert found["hash_bucket"] == hashed.numpy().tolist()
    assert len(set(found["crossed"])) == len(near)
    assert found["is_missing"] == [value == 2**53 + 1 for value in near]
    assert 1 in found["is_missing"]
    # The milliseconds of the year 9999 end before 2**53.
    hours = [value // 3_600_000 % 24 if value < 2**52 else -1 for value in near]
    assert found["time"] == hours and len({*hours}) > 1


def test_steps_become_one_step():
    center = 10**9
    document = {"zscore": {"mean": center, "stddev": 4.0}}, {"clip": {"min": -1, "max": 2}}
    spec = spec_of({"x": {"numeric": "x", "normalizer": list(document)}}, {"x": {"dtype": "int64"}})
    steps = spec.columns["x"].normalizer
    assert normalizers.scaling(steps) == normalizers.Scaling(
        Fraction(center), Fraction(4), ((Fraction(center - 4), Fraction(center + 8)),)
    )
    # (x - center) / 4 >= 0.3 if x >= center + 1.2; the clip leaves nothing above 2.
    assert normalizers.least_integer(steps, 0.3) == center + 2
    assert normalizers.least_integer(steps, -1) == -math.inf
    assert normalizers.least_integer(steps, 2.5) == math.inf
    assert normalizers.least_integer((), 2.5) == 3
