"""Filters and negative down-sampling: which rows are read, their weights, and their number."""

from __future__ import annotations

import math
import pathlib
import random
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

import feature_specs
from input_pipelines import input_fns
from input_pipelines.errors import DataError
from input_pipelines.integrity import diagnosis
from input_pipelines.prepare.analyze.scan import scan
from input_pipelines.prepare.convert import value_checks
from input_pipelines.reading import negatives, selection
from input_pipelines.reading.mixing import Mix, Part
from input_pipelines.reading.negatives import Negatives
from input_pipelines.reading.selection import RowCounts, Selection
from input_pipelines.record_files import tfrecords, writing
from input_pipelines.record_files.sharding import Shard
from tests.conftest import place
from tests.input_pipelines.inputs import training

DOCUMENT = {
    "features": {
        "x": {"dtype": "int64"},
        "country": {"dtype": "string", "default": ""},
        "age": {"dtype": "int64"},
        "score": {"dtype": "float32", "default": 0.5},
    },
    "columns": {"x": {"identity": "x", "size": 10}},
    "groups": {"wide": ["x"]},
    "labels": {"row": {"dtype": "float32"}, "click": {"dtype": "int64"}},
    "objectives": {"row": {"head": "regression"}, "click": {"head": "binary"}},
    "filter": [
        {"feature": "country", "in": ["de", "fr"]},
        {"feature": "age", "min": 18, "max": 20},
        {"feature": "score", "min": 0.25},
    ],
}
COUNTRIES = ["de", "fr", "it", None]


def row(number):
    return {
        "x": number % 10,
        "row": float(number),
        "country": COUNTRIES[number % 4],
        "age": 15 + number % 7,
        "score": None if number % 3 else (number % 5) / 4,
        "click": int(number % 6 == 0),
    }


def passes(number):
    values = row(number)
    score = 0.5 if values["score"] is None else values["score"]
    return values["country"] in ("de", "fr") and 18 <= values["age"] <= 20 and score >= 0.25


def make_spec(**changes):
    document = {**DOCUMENT, **changes}
    if not document["filter"]:
        document["ignored"] = ["country", "age", "score"]
    return feature_specs.parse(document)


@pytest.fixture
def files(tmp_path):
    paths = [f"{tmp_path}/{i}.tfrecord" for i in range(3)]
    for i, path in enumerate(paths):
        writing.write_examples(path, [row(100 * i + j) for j in range(100)])
    return paths


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(tfrecords, "BLOCK", 16)


def batches(input_fn):
    return [(labels["row"].numpy().astype(int).tolist(), labels) for _, labels in input_fn()]


def rows_of(input_fn):
    return [number for numbers, _ in batches(input_fn) for number in numbers]


KEPT = [number for number in range(300) if passes(number)]


def test_training_and_evaluation_read_what_passes_the_filter(files):
    spec = make_spec()
    assert 20 < len(KEPT) < 100
    assert rows_of(input_fns.eval_input_fn(spec, files, batch_size=7)) == KEPT
    trained = training(spec, files, batch_size=7, epochs=2)
    assert [len(numbers) for numbers, _ in batches(trained)[:-1]] == [7] * (2 * len(KEPT) // 7)
    assert sorted(rows_of(trained)) == sorted(2 * KEPT)
    assert Selection(spec).count(files) == RowCounts(300, (len(KEPT),))
    # Prediction answers for every row.
    features = input_fns.predict_input_fn(spec, files, batch_size=300)()
    assert [f["x"].shape[0] for f in features] == [300]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"feature": "country", "not_in": ["de", ""]}, lambda r: r["country"] in ("fr", "it")),
        ({"feature": "age", "in": [15, 21]}, lambda r: r["age"] in (15, 21)),
        ({"feature": "age", "max": 15}, lambda r: r["age"] == 15),
    ],
)
def test_each_condition(files, entry, expected):
    spec = make_spec(filter=[entry], ignored=[
        name for name in ("country", "age", "score") if name != entry["feature"]
    ])  # fmt: skip
    kept = [number for number in range(300) if expected(row(number))]
    assert rows_of(input_fns.eval_input_fn(spec, files, batch_size=50)) == kept


@pytest.mark.ci
def test_a_filtered_training_goes_on_exactly_and_is_shared_by_workers(files):
    spec = make_spec()

    def run(skip=0, shard=Shard()):
        own = Selection(spec).count(*shard.deal(files)).kept[0]
        return rows_of(training(
            spec, files, batch_size=5, epochs=3, shard=shard, skip_rows=skip, rows_an_epoch=own
        ))  # fmt: skip

    whole = run()
    for skip in (5, 2 * len(KEPT) // 5 * 5):
        assert run(skip) == whole[skip:]
    workers = [number for index in range(4) for number in run(shard=Shard(4, index))]
    assert sorted(workers) == sorted(3 * KEPT)


def expected_negatives(files, share, *, seed, epoch):
    """The rows that are kept, computed with SplitMix64 in Python."""
    kept = []
    for i in range(len(files)):
        file_hash = int(tf.strings.to_hash_bucket_fast(f"{i}.tfrecord", 2**62))
        state = mix(mix(mix(seed) + epoch) + file_hash)
        for j in range(100):
            drawn = (mix(state + j) >> 11) * 2.0**-53 < share
            if drawn or (100 * i + j) % 6 == 0:
                kept.append(100 * i + j)
    return kept


def mix(value):
    state = (value + 0x9E3779B97F4A7C15) % 2**64
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state = ((state ^ (state >> shift)) * factor) % 2**64
    return state ^ (state >> 31)


def test_the_hash_is_splitmix64():
    # The generator's first numbers for the seed 1234567, from its public reference code.
    assert [mix(1234567), mix(1234567 + 0x9E3779B97F4A7C15)] == [
        6457827717110365317, 3203168211198807973,
    ]  # fmt: skip
    four = tf.range(4, dtype=tf.int64)
    drawn = negatives.uniform(7, tf.constant([2, 5], tf.int64), tf.constant("f"), four).numpy()
    file_hash = int(tf.strings.to_hash_bucket_fast("f", 2**62))
    for column, epoch in enumerate((2, 5)):
        state = mix(mix(mix(7) + epoch) + file_hash)
        assert drawn[:, column].tolist() == [(mix(state + i) >> 11) * 2.0**-53 for i in range(4)]


def test_negatives_do_not_depend_on_how_paths_are_spelled(tmp_path, monkeypatch):
    for name in ("data/a/x", "data/b/x"):
        (tmp_path / name).parent.mkdir(parents=True)
        writing.write_examples(f"{tmp_path}/{name}", [row(i) for i in range(200)])
    (tmp_path / "link").symlink_to(tmp_path / "data" / "b")
    (tmp_path / "moved").symlink_to(tmp_path / "data")
    monkeypatch.chdir(tmp_path / "data")
    spellings = (
        ["a/x", "b/x"],
        ["./b//x", "../data/a/x"],
        [f"{tmp_path}/data/a/x", "../link/x"],
        [f"{tmp_path}/moved/b/x", f"file://{tmp_path}/data/a/x"],
    )
    # The names in the deepest common folder decide, in the order of the folders.
    drawn = [
        negatives.uniform(
            5, tf.constant([0], tf.int64), tf.constant(name), tf.range(200, dtype=tf.int64)
        )
        for name in ("a/x", "b/x")
    ]
    expected = [
        number
        for of_file in drawn
        for number in range(200)
        if number % 6 == 0 or of_file[number, 0] < 0.3
    ]
    for paths in spellings:
        for shard in (Shard(),) if paths != spellings[-1] else (Shard(), Shard(3, 1)):
            input_fn = training(
                make_spec(filter=[]), paths, batch_size=50, seed=5, epochs=1, shuffle=False,
                negatives=Negatives("click", 0.3), shard=shard,
            )  # fmt: skip
            read = rows_of(input_fn)
            if shard == Shard():
                assert read == expected, paths
            else:  # Every third row of each file.
                kept = [n for i, of in enumerate(drawn) for n in range(1, 200, 3)
                        if n % 6 == 0 or of[n, 0] < 0.3]  # fmt: skip
                assert read == kept, paths


@pytest.mark.ci
def test_each_epoch_draws_other_negatives_and_weights_make_up_for_dropped_ones(files):
    spec = make_spec(filter=[])
    negatives = Negatives("click", 0.25)
    epochs = [expected_negatives(files, 0.25, seed=9, epoch=e) for e in range(3)]
    assert len({tuple(kept) for kept in epochs}) == 3
    counts = Selection(spec, negatives=negatives, seed=9, of=files).count(files, epochs=3)
    assert counts == RowCounts(300, tuple(len(kept) for kept in epochs))

    def run(skip=0, shard=Shard()):
        own = Selection(spec, negatives=negatives, seed=9, of=files).count(
            *shard.deal(files), epochs=3
        )
        return training(
            spec, files, batch_size=10, seed=9, epochs=3, negatives=negatives, shard=shard,
            skip_rows=skip, rows_an_epoch=own.kept,
        )  # fmt: skip

    whole = rows_of(run())
    ends = np.cumsum([0, *counts.kept])
    for epoch, kept in enumerate(epochs):
        assert sorted(whole[ends[epoch] : ends[epoch + 1]]) == kept
    for skip in (int(ends[1]) // 10 * 10 + 10, int(ends[3]) // 10 * 10):
        assert rows_of(run(skip)) == whole[skip:]
    workers = [number for index in range(4) for number in rows_of(run(shard=Shard(4, index)))]
    assert sorted(workers) == sorted(number for kept in epochs for number in kept)
    for _, labels in batches(run()):
        expected = np.where(labels["click"] == 0, 4.0, 1.0)
        np.testing.assert_array_equal(labels["click/weight"], expected)
        np.testing.assert_array_equal(labels["row/weight"], expected)


def test_weights_of_a_label_are_multiplied():
    labels = {"row": {"dtype": "float32", "weight": "click"}, "click": {"dtype": "int64"}}
    chosen = Selection(
        make_spec(filter=[], labels=labels), negatives=Negatives("click", 0.5), of=["f"]
    )
    weighed = chosen.weigh({
        "row": tf.zeros(2), "click": tf.constant([0, 1], tf.int64),
        "row/weight": tf.constant([3.0, 5.0]),
    })  # fmt: skip
    assert weighed["row/weight"].numpy().tolist() == [6.0, 5.0]
    assert weighed["click/weight"].numpy().tolist() == [2.0, 1.0]
    # With the loss delayed_feedback, a label has a time.
    weighed = chosen.weigh({
        "row": tf.zeros(3), "click": tf.constant([[0.0, 0.0], [1, 0], [0, 5]]),
        "row/weight": tf.constant([3.0, 5.0, 7.0]),
    })  # fmt: skip
    assert weighed["row/weight"].numpy().tolist() == [6.0, 5.0, 14.0]
    assert weighed["click/weight"].numpy().tolist() == [2.0, 1.0, 2.0]


@pytest.mark.ci
def test_epochs_are_counted_until_a_number_of_rows(files):
    chosen = Selection(make_spec(filter=[]), negatives=Negatives("click", 0.25), seed=9, of=files)
    counts = chosen.count_until(files, rows=2000)
    assert sum(counts.kept) > 2000
    assert counts.kept[:3] == chosen.count(files, epochs=3).kept
    # More epochs than one pass counts.
    assert chosen.count(files, epochs=70).kept[:3] == counts.kept[:3]


def test_the_share_of_negatives_that_is_kept_is_the_one_asked_for(tmp_path):
    path = f"{tmp_path}/many.tfrecord"
    writing.write_examples(path, [{"click": 0} for _ in range(20_000)])
    chosen = Selection(make_spec(filter=[]), negatives=Negatives("click", 0.1), seed=3, of=[path])
    for kept in chosen.count([path], epochs=2).kept:
        assert abs(kept - 2000) < 4 * np.sqrt(20_000 * 0.1 * 0.9)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("often", "got 'often', expected a share above 0 and below 1, as in click=0.1"),
        ("1", "got '1', expected a share above 0 and below 1, as in click=0.1"),
        ("nan", "got 'nan', expected a share above 0 and below 1, as in click=0.1"),
        (
            "row=0.1",
            "got 'row=0.1': no binary head learns 'row' (labels of binary heads are: click)",
        ),
    ],
)
def test_invalid_negatives(text, message):
    with pytest.raises(ValueError) as error:
        Negatives.of(text, make_spec())
    assert str(error.value) == message


def test_the_label_of_negatives():
    assert Negatives.of("0.1", make_spec()) == Negatives.of("click=0.1", make_spec())
    labels = {"row": {"dtype": "int64"}, "click": {"dtype": "int64", "missing": "mask"}}
    heads = {"row": {"head": "binary"}, "click": {"head": "binary"}}
    two = make_spec(labels=labels, objectives=heads)
    with pytest.raises(ValueError) as error:
        Negatives.of("0.1", two)
    assert str(error.value) == (
        "got '0.1': name a label, as in click=0.1 (labels of binary heads are: row, click)"
    )
    with pytest.raises(ValueError, match=r"label 'click' may be missing \(missing: mask\)"):
        Negatives.of("click=0.1", two)
    assert Negatives.of("row=0.1", two).label == "row"


def test_words_are_negative_by_the_first_of_the_vocabulary(tmp_path):
    labels = {
        "row": {"dtype": "float32"},
        "click": {"dtype": "string", "vocabulary": ["no", "yes"]},
    }
    spec = make_spec(filter=[], labels=labels)
    path = f"{tmp_path}/words.tfrecord"
    rows = [{"click": "yes" if i % 4 == 0 else "no"} for i in range(400)]
    writing.write_examples(path, rows)
    kept = (
        Selection(spec, negatives=Negatives("click", 0.001), seed=1, of=[path])
        .count([path])
        .kept[0]
    )
    assert 100 <= kept < 110


def test_a_bad_record_that_decides_is_named_and_one_that_is_dropped_is_not(tmp_path):
    spec = make_spec()
    good = {**row(3), "country": "de", "age": 18}
    path = f"{tmp_path}/bad.tfrecord"
    dropped = {**good, "age": 1}
    del dropped["x"]  # Never read: the filter drops the row because of its age.
    late = {name: value for name, value in good.items() if name != "age"}
    writing.write_examples(path, [good, dropped, {**good, "score": 0.5}])
    assert diagnosis.find_bad_record(spec, [path]) is None
    assert rows_of(input_fns.eval_input_fn(spec, [path], batch_size=9)) == [3, 3]
    writing.write_examples(path, [good, dropped, late])
    with pytest.raises(tf.errors.InvalidArgumentError):
        Selection(spec).count([path])
    assert diagnosis.find_bad_record(spec, [path]) == (
        f"{path}: {place(path, 2)}: feature 'age' is missing, and it has no default in the spec; "
        "give it one if records may lack it"
    )
    writing.write_examples(path, [{**good, "score": float("nan")}])
    assert diagnosis.find_bad_record(spec, [path]) == (
        f"{path}: record 0 at byte 0: feature 'score' is nan, expected a finite number"
    )


@pytest.mark.parametrize(
    ("shard", "message"),
    [
        (Shard(), "an epoch of the input holds no record that is kept"),
        (
            Shard(2, 1),
            "an epoch of this worker (2 of 2) holds no record that is kept; train with fewer "
            "workers",
        ),
    ],
)
def test_an_endless_training_on_nothing_is_an_error(files, shard, message):
    spec = make_spec(filter=[{"feature": "age", "min": 99}], ignored=["country", "score"])
    endless = training(spec, files, batch_size=4, shard=shard)
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        next(iter(endless()))
    assert message in str(error.value)


# --- Mixes ----------------------------------------------------------------------------------------


def two_parts(files, shares):
    return Mix((
        Part("a", tuple(files[:1]), shares[0]), Part("b", tuple(files[1:]), shares[1]),
    ))  # fmt: skip


@pytest.mark.ci
@pytest.mark.parametrize(("shares", "shuffle"), [((3, 1), True), ((1, 40), False)])
def test_a_mix_has_its_shares_and_each_part_is_read_epoch_by_epoch(files, shares, shuffle):
    spec = make_spec(filter=[])

    def run(skip=0, shard=Shard(), counts=(100, 200)):
        return rows_of(training(
            spec, two_parts(files, shares), batch_size=8, epochs=3, shuffle=shuffle,
            skip_rows=skip, rows_an_epoch=counts, shard=shard,
        ))  # fmt: skip

    whole = run()
    assert len(whole) == 3 * 300
    size = sum(shares)
    for start in range(0, 900 // size * size, size):
        assert sum(number < 100 for number in whole[start : start + size]) == shares[0]
    for part in ({*range(100)}, {*range(100, 300)}):
        own = [number for number in whole if number in part]
        for start in range(0, len(own) - len(part) + 1, len(part)):
            assert set(own[start : start + len(part)]) == part
    for skip in (296, 304):
        assert run(skip) == whole[skip:]


@pytest.mark.nightly
def test_a_mix_of_selected_rows_goes_on_exactly(files):
    spec = make_spec()
    negatives = Negatives("click", 0.5)
    chosen = Selection(spec, negatives=negatives, seed=1, of=files)
    mix_of_two = two_parts(files, (2, 3))

    def run(skip=0):
        skips = mix_of_two.skips(skip)[0]
        counts = [
            chosen.count_until(part.files, rows=max(rows, 100)).kept
            for part, rows in zip(mix_of_two.parts, skips)
        ]
        return rows_of(training(
            spec, mix_of_two, batch_size=4, epochs=2, negatives=negatives, skip_rows=skip,
            rows_an_epoch=counts,
        ))  # fmt: skip

    whole = run()
    assert set(whole) <= set(KEPT)
    assert run(40) == whole[40:]


def test_epochs_of_a_mix_have_to_be_counted(files):
    with pytest.raises(ValueError, match="epochs of a mix need the rows of an epoch of each part"):
        training(make_spec(), two_parts(files, (1, 1)), batch_size=4, epochs=1)()


def test_the_parts_of_a_mix(files, tmp_path):
    made = Mix.of([f"{tmp_path}/0*=30", f"{tmp_path}/[12]*=10"], flag="--train_mix")
    assert made == Mix((
        Part(f"{tmp_path}/0*", (files[0],), 3), Part(f"{tmp_path}/[12]*", tuple(files[1:]), 1),
    ))  # fmt: skip
    assert made.files == files and made.round == 4 and made.skips(11) == ([6, 2], 3)
    with pytest.raises(ValueError, match=r"got 'a=x', expected pattern=share with a whole number"):
        Mix.of(["a=x"])
    with pytest.raises(Exception, match="A file can be in only one part of a mix") as error:
        Mix.of([f"{tmp_path}/*=1", f"{tmp_path}/0*=1"], flag="--train_mix")
    assert str(error.value).startswith(
        f"--train_mix: '{tmp_path}/*' and '{tmp_path}/0*' both match {files[0]}."
    )


@pytest.mark.ci
def test_of_damaged_files_the_good_rows_are_selected(files, tmp_path):
    spec = make_spec()
    whole = Selection(spec, negatives=Negatives("click", 0.5), seed=3, of=files)
    data = bytearray(pathlib.Path(files[1]).read_bytes())
    data[int(place(files[1], 7).split()[-1]) + 20] ^= 1  # Row 107.
    pathlib.Path(files[1]).write_bytes(data)
    with pytest.raises(DataError, match="record 7 at byte"):
        whole.count(files)
    damaged = {files[1]: frozenset({8})}
    good = [number for number in KEPT if number not in (107, 108)]
    assert Selection(spec).count(files, damaged=damaged) == RowCounts(298, (len(good),))
    assert rows_of(input_fns.eval_input_fn(spec, files, batch_size=9, damaged=damaged)) == good
    counts = whole.count(files, epochs=2, damaged=damaged)
    trained = rows_of(training(
        spec, files, batch_size=9, seed=3, epochs=2, negatives=Negatives("click", 0.5),
        damaged=damaged,
    ))  # fmt: skip
    assert set(trained) <= set(good) and len(trained) == counts.in_epochs(2)
    numbers = {}
    for index in range(2):
        blocks = tfrecords.numbered_blocks(files, Shard(2, index), damaged=damaged)
        for _, path, places in blocks.as_numpy_iterator():
            assert all(places % 2 == index)
            numbers.setdefault(path.decode(), []).extend(places)
    assert [sorted(numbers[path]) for path in files] == [
        list(range(100)), list(range(98)), list(range(100)),
    ]  # fmt: skip
    mix = two_parts(files, (1, 1))
    assert mix.only(files[:2]).files == files[:2]


def test_weights_of_steps_are_kept_and_multiplied_by_the_weight_of_the_row():
    spec = make_spec(filter=[])
    chosen = Selection(spec, negatives=Negatives("click", 0.5), of=["f"])
    labels = {
        "click": tf.constant([0, 1]),
        "row": tf.constant([[1.0, 2.0], [3.0, 4.0]]),
        "row/weight": tf.constant([[1.0, 0.0], [1.0, 3.0]]),
    }
    weighed = chosen.weigh(labels)
    assert weighed["row/weight"].numpy().tolist() == [[2, 0], [1, 3]]
    assert weighed["click/weight"].numpy().tolist() == [2, 1]


NEAR = [center + offset for center in (2**24, 2**31, 2**53, 2**62) for offset in (-1, 0, 1, 2)]


@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_a_bound_is_compared_exactly_in_training_and_conversion(dtype):
    kind = np.dtype(dtype).type
    values = sorted({kind(sign * n) for n in NEAR for sign in (1, -1)} | {kind(0)})
    decimals = [0.1, 0.7, 1000000.01] if dtype == "float32" else []
    values += map(kind, decimals)
    bounds = [sign * n for n in NEAR for sign in (1, -1)] + decimals
    records = tf.constant(
        [writing.example({"v": v.item(), "click": 1}).SerializeToString() for v in values]
    )
    batch = pa.record_batch({"v": pa.array(values)})
    for bound in bounds:
        # 0.1 stands for the float32 that is printed as 0.1.
        exact = [bound if str(v) == str(bound) else Fraction(v.item()) for v in values]
        for key, expected in (
            ("min", [v >= bound for v in exact]),
            ("max", [v <= bound for v in exact]),
        ):
            spec = feature_specs.parse(
                {
                    "features": {"v": {"dtype": dtype}},
                    "columns": {"v": {"numeric": "v"}},
                    "groups": {"wide": ["v"]},
                    "labels": {"click": {"dtype": "int64"}},
                    "objectives": {"click": {"head": "binary"}},
                    "filter": [{"feature": "v", key: bound}],
                }
            )
            case = f"{key}: {bound}"
            assert selection.mask(records, spec.conditions).numpy().tolist() == expected, case
            assert value_checks.passes(batch, spec.conditions).tolist() == expected, case


POOLS = {
    "string": ["", "de", "fr", "é", "it"],
    "int64": [-1, 0, 1, 7, 2**53 + 1, -(2**63), 2**63 - 1],
    "float32": [-1.5, 0.0, 0.25, 7.0, 1e30],
}


def random_filter(rng):
    """(features, filter) of a document. All bounds are exact in their types."""
    features, conditions = {}, []
    for name, pool in POOLS.items():
        features[name] = {"dtype": name}
        if rng.random() < 0.5:
            features[name]["default"] = rng.choice(pool)
    for _ in range(rng.randint(1, 4)):
        name = rng.choice([*POOLS])
        low, high = sorted(rng.choices(POOLS[name], k=2))
        if name != "string" and (name == "float32" or rng.random() < 0.5):
            ends = rng.choice([{"min": low}, {"max": high}, {"min": low, "max": high}])
        else:
            ends = {rng.choice(["in", "not_in"]): [low, high][: rng.randint(1, 2)]}
        conditions.append({"feature": name, **ends})
    return features, conditions


def verdict(row, features, conditions):
    """Whether a row passes, by hand. None if a value is missing or not finite."""
    passed = True
    for condition in conditions:
        name = condition["feature"]
        value = row[name] if row[name] is not None else features[name].get("default")
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            return None
        passed &= value in condition.get("in", [value])
        passed &= value not in condition.get("not_in", [])
        passed &= condition.get("min", value) <= value <= condition.get("max", value)
    return passed


@pytest.mark.parametrize("count", [8, pytest.param(300, marks=pytest.mark.nightly)])
def test_random_filters_in_training_tables_and_analysis(tmp_path, count):
    rng = random.Random(count)
    types = {"string": pa.binary(), "int64": pa.int64(), "float32": pa.float32()}
    path, met = f"{tmp_path}/rows.tfrecord", set()
    for number in range(count):
        features, filters = random_filter(rng)
        spec = make_spec(features=features, columns={
            "s": {"hash_bucket": "string", "size": 5}, "i": {"hash_bucket": "int64", "size": 5},
            "f": {"numeric": "float32"},
        }, groups={"wide": ["s", "i", "f"]}, filter=filters)  # fmt: skip
        rows = [
            {name: rng.choice([*pool, *pool, None]) for name, pool in POOLS.items()}
            for _ in range(20)
        ]
        if number % 3 == 0:
            rows[7]["float32"] = rng.choice([math.nan, math.inf])
        if number % 2:  # Rows with which training does not stop.
            rows = [row for row in rows if verdict(row, features, filters) is not None]
            if not rows:
                continue
        expected = [verdict(row, features, filters) for row in rows]
        met.update(expected)
        records = [writing.example({**row, "click": 1}).SerializeToString() for row in rows]
        found = selection.verdicts(records, spec.conditions)
        assert [None if isinstance(one, Exception) else one for one in found] == expected
        batch = pa.record_batch(
            {
                name: pa.array(
                    [v.encode() if isinstance(v, str) else v for v in column], types[name]
                )
                for name, column in ((name, [row[name] for row in rows]) for name in types)
            }
        )
        good, undecided = value_checks.verdicts(batch, spec.conditions)
        assert [None if no else bool(yes) for yes, no in zip(good, undecided)] == expected
        if number % 4 > 1:  # Datasets are slow to make.
            continue
        writing.write_examples(path, [{**row, "click": 1} for row in rows])
        if None in expected:
            first = f"{path}: record {expected.index(None)}: a feature that the filter of the spec"
            with pytest.raises(DataError) as error:
                scan([path], conditions=spec.conditions)
            assert str(error.value).startswith(first)
            with pytest.raises(tf.errors.InvalidArgumentError):
                Selection(spec).count([path])
        else:
            kept = expected.count(True)
            summary = scan([path], conditions=spec.conditions)
            assert (summary.rows, summary.dropped) == (kept, len(rows) - kept)
            assert Selection(spec).count([path]) == RowCounts(len(rows), (kept,))
    assert met == {True, False, None}
