"""The default data: the same bytes each time, whole or absent, true to its documented formula."""

from __future__ import annotations

import glob
import hashlib
import math
import os
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from input_pipelines import synthetic, tfrecords
from input_pipelines import synthetic_truth as truth

SMALL = {"rows": 2000, "days": 3, "shards_per_day": 2}


def contents(folder) -> dict[str, str]:
    """A digest of every file, hidden ones too, by its path."""
    files = [path for path in pathlib.Path(folder).rglob("*") if path.is_file()]
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


def read(pattern: str) -> list[dict]:
    """Records as `{feature: list of values}`."""
    rows = []
    for path in sorted(glob.glob(pattern)):
        for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
            features = tf.train.Example.FromString(record).features.feature
            rows.append(
                {name: list(getattr(v, v.WhichOneof("kind")).value) for name, v in features.items()}
            )
    return rows


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("synthetic") / "ads"
    synthetic.generate(str(folder), rows=24_000, days=4)
    return str(folder)


def test_the_same_settings_give_the_same_bytes_in_the_promised_places(tmp_path):
    for name in ("a", "b"):
        synthetic.generate(str(tmp_path / name), **SMALL)
    files = contents(tmp_path / "a")
    assert files == contents(tmp_path / "b")
    assert set(files) == {
        "_GENERATOR.json",
        *(f"dt=2026-01-0{d}/{f}" for d in (1, 2, 3) for f in (
            "_SUCCESS", "part-00000-of-00002.tfrecord", "part-00001-of-00002.tfrecord")),
    }  # fmt: skip
    counts = [
        tfrecords.count_records([path]) for path in sorted(glob.glob(f"{tmp_path}/a/*/*.tfrecord"))
    ]
    assert counts == [334, 333, 334, 333, 333, 333]
    synthetic.generate(str(tmp_path / "c"), **SMALL, seed=2)
    assert contents(tmp_path / "c") != files


def test_an_interrupted_generation_goes_on(tmp_path):
    folder = tmp_path / "ads"
    synthetic.generate(str(folder), **SMALL)
    whole = contents(folder)
    shutil.move(str(folder / "dt=2026-01-02"), str(folder / ".tmp-dt=2026-01-02"))
    os.remove(folder / "dt=2026-01-03" / "_SUCCESS")
    days = []
    synthetic.generate(str(folder), **SMALL, progress=days.append)
    assert contents(folder) == whole
    assert [day.kept for day in days] == [True, False, False]


def test_data_made_with_other_settings_are_never_touched(tmp_path):
    folder = str(tmp_path / "ads")
    synthetic.generate(folder, **SMALL)
    before = contents(folder)
    with pytest.raises(ValueError, match=r"2000|rows"):
        synthetic.generate(folder, **{**SMALL, "rows": 999})
    assert contents(folder) == before
    (tmp_path / "other" / "dt=2026-01-01").mkdir(parents=True)
    with pytest.raises(ValueError, match="so this generator did not make it"):
        synthetic.generate(str(tmp_path / "other"), **SMALL)
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["dt=2026-01-01"]


def test_new_items_appear_every_day(data):
    seen: set[bytes] = set()
    new = []
    for day in (1, 2, 3, 4):
        items = {row["item_id"][0] for row in read(f"{data}/dt=2026-01-0{day}/*.tfrecord")}
        new.append(len(items - seen))
        seen |= items
    assert all(count >= 30 for count in new[1:])


def test_labels_are_drawn_from_the_true_probabilities(data):
    rows = read(f"{data}/*/*.tfrecord")
    click = np.array([row["click"][0] for row in rows])
    p = np.array([row["true_click_probability"][0] for row in rows])
    assert 0.04 < click.mean() < 0.06
    # Four standard deviations of a sum of independent draws.
    assert abs(click.sum() - p.sum()) < 4 * math.sqrt((p * (1 - p)).sum())
    bought = np.array([row["purchase"][0] for row in rows])
    q = np.array([row["true_purchase_probability"][0] for row in rows])[click == 1]
    assert bought[click == 0].sum() == 0
    assert abs(bought.sum() - q.sum()) < 4 * math.sqrt((q * (1 - q)).sum())
    assert 0.05 < bought[click == 1].mean() < 0.15
    without_age = np.mean(["user_age" not in row for row in rows])
    assert 0.005 < without_age < 0.1
    assert max(len(row.get("interests", [])) for row in rows) == 5


def probability_by_hand(row: dict) -> float:
    """The click formula of the truth module's docstring, for one record, in plain Python."""

    def one(name):
        value = row[name][0]
        return value.decode() if isinstance(value, bytes) else value

    country = {c.code: c for c in truth.COUNTRIES}[one("user_country")]
    device = {d.name: d for d in truth.DEVICES}[one("device")]
    category = {c.name: c for c in truth.CATEGORIES}[one("item_category")]
    interests = [value.decode() for value in row.get("interests", [])]
    age = one("user_age") if "user_age" in row else None
    ratio = math.log(one("item_price") / category.typical_price)
    logit = truth.CLICK_INTERCEPT + country.click + device.click + category.click
    logit += category.pull if category.name in interests else 0.0
    if age is not None:
        logit += 0.5 * math.exp(-(((age - category.peak_age) / truth.AGE_WIDTH) ** 2) / 2)
        logit -= 0.02 * (age - 44)
    logit -= 0.15 * math.log(one("item_price") / 40)
    logit += category.price_curve * math.exp(-((ratio / truth.PRICE_WIDTH) ** 2) / 2)
    logit += device.hour_swing * math.cos(2 * math.pi * (one("hour") - device.peak_hour) / 24)
    logit += 0.14 * math.sin(12.9898 * int(one("item_id").split("_")[1]))
    logit += 0.14 * math.sin(78.233 * int(one("user_id").split("_")[1]))
    return 1 / (1 + math.exp(-logit))


def test_the_stored_probability_is_the_documented_one(data):
    for row in read(f"{data}/dt=2026-01-04/part-00003*")[:300]:
        assert row["true_click_probability"][0] == pytest.approx(probability_by_hand(row), rel=1e-5)


def test_bayes_metrics_by_hand(tmp_path):
    path = f"{tmp_path}/a.tfrecord"
    labels, scores = [1, 0, 1, 0], [0.9, 0.2, 0.4, 0.6]
    tfrecords.write_examples(
        path,
        [
            {"click": y, "purchase": int(p == 0.9), "true_click_probability": p,
             "true_purchase_probability": 1 - p}
            for y, p in zip(labels, scores)
        ],
    )  # fmt: skip
    got = synthetic.bayes_metrics([path])
    assert got["click"]["auc"] == 0.75 and got["click"]["rows"] == 4
    expected = -sum(map(math.log, (0.9, 0.8, 0.4, 0.4))) / 4
    assert got["click"]["log_loss"] == pytest.approx(expected, abs=1e-6)
    assert got["purchase"]["auc"] == 0.0 and got["purchase"]["rows"] == 2
