"""The default data are the same bytes each time, never half written, and follow the formula."""

from __future__ import annotations

import glob
import hashlib
import json
import math
import os
import pathlib
import re
import shutil
import threading

import numpy as np
import pytest
import tensorflow as tf
from sklearn.metrics import roc_auc_score

from input_pipelines.record_files import tfrecords
from input_pipelines.synthetic import impression_log, truth

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
        for batch in tf.data.TFRecordDataset(path).batch(1000).as_numpy_iterator():
            for record in batch:
                features = tf.train.Example.FromString(record).features.feature
                rows.append(
                    {k: list(getattr(v, v.WhichOneof("kind")).value) for k, v in features.items()}
                )
    return rows


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("synthetic") / "ads"
    impression_log.generate(str(folder), rows=24_000, days=4)
    return str(folder)


@pytest.fixture(scope="module")
def rows(data):
    return read(f"{data}/*/*.tfrecord")


def column(rows: list[dict], name: str) -> np.ndarray:
    return np.array([row[name][0] for row in rows])


def test_the_same_settings_give_the_same_bytes_in_the_promised_places(tmp_path):
    for name in ("a", "b"):
        impression_log.generate(str(tmp_path / name), **SMALL)
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
    assert json.loads((tmp_path / "a" / "_GENERATOR.json").read_text()) == {
        "version": 1, "rows": 2000, "days": 3, "shards_per_day": 2, "first_day": "2026-01-01",
        "seed": 1,
    }  # fmt: skip
    impression_log.generate(str(tmp_path / "c"), **SMALL, seed=2)
    assert contents(tmp_path / "c") != files


def test_an_interrupted_generation_goes_on(tmp_path):
    folder = tmp_path / "ads"
    impression_log.generate(str(folder), **SMALL)
    whole = contents(folder)
    shutil.move(str(folder / "dt=2026-01-02"), str(folder / ".tmp-dt=2026-01-02-1"))
    (folder / ".tmp-dt=2026-01-02-1" / "left_over").write_text("half a file")
    os.remove(folder / "dt=2026-01-03" / "_SUCCESS")
    days = []
    impression_log.generate(str(folder), **SMALL, progress=days.append)
    assert contents(folder) == whole
    assert days == [
        ("dt=2026-01-01", 667, True), ("dt=2026-01-02", 667, False), ("dt=2026-01-03", 666, False)
    ]  # fmt: skip


def test_complete_data_are_left_alone(tmp_path, monkeypatch):
    folder = tmp_path / "ads"
    impression_log.generate(str(folder), **SMALL)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    monkeypatch.setattr(truth, "draw_population", None)  # Fails if anything is drawn.
    impression_log.generate(str(folder), **SMALL)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_generating_into_one_folder_at_the_same_time_takes_turns(tmp_path):
    alone, together = tmp_path / "alone", tmp_path / "together"
    impression_log.generate(str(alone), **SMALL)
    kept: list[list[bool]] = [[], []]

    def work(number: int) -> None:
        impression_log.generate(
            str(together), **SMALL, progress=lambda day: kept[number].append(day.kept)
        )

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert contents(together) == contents(alone)
    assert sorted(kept) == [[False] * 3, [True] * 3]


def test_data_made_with_other_settings_are_never_touched(tmp_path):
    folder = str(tmp_path / "ads")
    impression_log.generate(folder, **SMALL)
    before = contents(folder)
    message = (
        f"out_dir {folder!r} has data that were made with rows=2000, seed=1, but you asked for"
        " rows=999, seed=7. Choose another out_dir, use the same settings, or remove the folder to"
        " make the data again."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        impression_log.generate(folder, **{**SMALL, "rows": 999, "seed": 7})
    assert contents(folder) == before


def test_a_folder_that_something_else_filled_is_never_touched(tmp_path):
    (tmp_path / "dt=2026-01-01").mkdir()
    message = (
        f"out_dir {str(tmp_path)!r} has 'dt=2026-01-01' but no _GENERATOR.json, so this"
        " generator did not make it. Choose another out_dir."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        impression_log.generate(str(tmp_path), **SMALL)
    (tmp_path / "_GENERATOR.json").write_text("not json")
    with pytest.raises(ValueError, match=r"_GENERATOR\.json: not JSON: .* Repair or remove it"):
        impression_log.generate(str(tmp_path), **SMALL)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_GENERATOR.json", "dt=2026-01-01"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"days": 0}, "days must be at least 1, got 0."),
        ({"shards_per_day": -1}, "shards_per_day must be at least 1, got -1."),
        ({"seed": -1}, "seed must be at least 0, got -1."),
        (
            {"rows": 31},
            "rows must be at least days * shards_per_day = 32 so that no file is empty, got 31.",
        ),
        ({"first_day": "May 1"}, "first_day must be a date like '2026-01-01', got 'May 1'."),
    ],
)
def test_a_setting_out_of_range_is_refused_before_anything_is_written(tmp_path, settings, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        impression_log.generate(str(tmp_path / "ads"), **settings)
    assert not (tmp_path / "ads").exists()


def test_the_command_line_reports_days_and_speed(tmp_path, capsys):
    argv = [f"--out_dir={tmp_path}", "--rows=40", "--days=2", "--first_day=2025-12-31"]
    impression_log.main(argv)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["dt=2025-12-31: 20 rows written", "dt=2026-01-01: 20 rows written"]
    assert re.fullmatch(r"40 rows written in [\d.]+ s, [\d,]+ rows a second", lines[2])
    impression_log.main(argv)
    assert capsys.readouterr().out.startswith("dt=2025-12-31: 20 rows kept\n")


def test_records_hold_the_promised_features(rows):
    lists = {"user_age": int, "hour": int, "click": int, "purchase": int, "item_price": float,
             "true_click_probability": float, "true_purchase_probability": float,
             "user_id": bytes, "user_country": bytes, "device": bytes, "item_id": bytes,
             "item_category": bytes, "interests": bytes}  # fmt: skip
    names = {category.name.encode() for category in truth.CATEGORIES}
    owners: dict[bytes, tuple] = {}
    for row in rows:
        assert set(row) | {"user_age"} == set(lists)
        assert all(type(value) is lists[name] for name, values in row.items() for value in values)
        assert all(len(row[name]) == 1 for name in row if name != "interests")
        assert re.fullmatch(rb"user_\d{5}", row["user_id"][0])
        assert re.fullmatch(rb"item_\d{4}", row["item_id"][0])
        assert 18 <= row.get("user_age", [18])[0] <= 79 and 0 <= row["hour"][0] <= 23
        assert row["item_price"][0] > 0 and row["item_category"][0] in names
        assert len(set(row["interests"])) == len(row["interests"]) <= 5
        assert names.issuperset(row["interests"])
        who = (row.get("user_age"), row["user_country"], row["interests"])
        assert owners.setdefault(row["user_id"][0], who) == who
    assert 0.01 < np.mean([age is None for age, _, _ in owners.values()]) < 0.05
    assert {len(interests) for _, _, interests in owners.values()} == {0, 1, 2, 3, 4, 5}
    shown = np.sort(np.unique(column(rows, "user_id"), return_counts=True)[1])[::-1]
    assert shown[:200].sum() > 0.2 * len(rows) and shown[0] < 0.05 * len(rows)


def test_new_items_appear_every_day_and_get_their_share(rows):
    seen: set[bytes] = set()
    for day in range(4):
        items = column(rows[6000 * day : 6000 * (day + 1)], "item_id")
        numbers = np.array([int(item[5:]) for item in items])
        assert numbers.max() < 800 + 40 * day
        if day:
            assert len(set(items) - seen) >= 30
            # 40 items, each shown as often as the average item; four standard deviations.
            share = 40 / (800 + 40 * day)
            launched = (numbers >= 760 + 40 * day).sum()
            assert abs(launched - share * 6000) < 4 * math.sqrt(share * 6000)
        seen |= set(items)


def test_labels_are_drawn_from_the_true_probabilities(rows):
    click, bought = column(rows, "click"), column(rows, "purchase")
    p, q = column(rows, "true_click_probability"), column(rows, "true_purchase_probability")
    assert 0.04 < click.mean() < 0.06
    assert bought[click == 0].sum() == 0
    assert 0.08 < bought[click == 1].mean() < 0.12
    for label, true in ((click, p), (bought[click == 1], q[click == 1])):
        for tenth in np.array_split(np.argsort(true), 10):
            # Four standard deviations of a sum of independent draws.
            allowed = 4 * math.sqrt((true[tenth] * (1 - true[tenth])).sum())
            assert abs(label[tenth].sum() - true[tenth].sum()) < allowed


def probabilities_by_hand(row: dict) -> tuple[float, float]:
    """The two formulas of the truth module's docstring, for one record, in plain Python."""

    def one(name):
        value = row[name][0]
        return value.decode() if isinstance(value, bytes) else value

    country = {c.code: c for c in truth.COUNTRIES}[one("user_country")]
    device = {d.name: d for d in truth.DEVICES}[one("device")]
    category = {c.name: c for c in truth.CATEGORIES}[one("item_category")]
    match = 1 if category.name in [value.decode() for value in row["interests"]] else 0
    age_fit = age_term = 0.0
    if "user_age" in row:
        age_fit = math.exp(-(((one("user_age") - category.peak_age) / truth.AGE_WIDTH) ** 2) / 2)
        age_term = one("user_age") - 44
    price_ratio = math.log(one("item_price") / category.typical_price)
    price_fit = math.exp(-((price_ratio / truth.PRICE_WIDTH) ** 2) / 2)
    hour_fit = math.cos(2 * math.pi * (one("hour") - device.peak_hour) / 24)
    quality = math.sin(12.9898 * int(one("item_id").split("_")[1]))
    propensity = math.sin(78.233 * int(one("user_id").split("_")[1]))
    payment = truth.PAYMENT[truth.COUNTRIES.index(country)][truth.DEVICES.index(device)]
    click = (
        truth.CLICK_INTERCEPT + country.click + device.click + category.click
        - 0.02 * age_term - 0.15 * math.log(one("item_price") / 40)
        + category.pull * match + 0.5 * age_fit
        + category.price_curve * price_fit + device.hour_swing * hour_fit
        + 0.14 * quality + 0.14 * propensity
    )  # fmt: skip
    purchase = (
        truth.PURCHASE_INTERCEPT + country.purchase + payment
        + 0.4 * category.pull * match + 0.9 * age_fit - 1.2 * price_ratio
        + 0.14 * quality
    )  # fmt: skip
    return 1 / (1 + math.exp(-click)), 1 / (1 + math.exp(-purchase))


def test_the_stored_probabilities_are_the_documented_ones(data):
    rows = read(f"{data}/dt=2026-01-04/part-00003*")[:300]
    assert any("user_age" not in row for row in rows)
    assert any(row["item_category"][0] in row["interests"] for row in rows)
    for row in rows:
        stored = (row["true_click_probability"][0], row["true_purchase_probability"][0])
        assert stored == pytest.approx(probabilities_by_hand(row), rel=1e-5)


def test_the_worked_number_of_the_documentation():
    row = {"user_age": [34], "user_country": [b"US"], "device": [b"phone"], "hour": [21],
           "item_category": [b"electronics"], "item_price": [150.0], "interests": [b"electronics"],
           "item_id": [b"item_0000"], "user_id": [b"user_00000"]}  # fmt: skip
    assert probabilities_by_hand(row) == pytest.approx((0.317, 0.156), abs=5e-4)
    shown = truth.Impressions(
        user=np.array([0]),
        age=np.array([34]),
        country=np.array([0]),
        device=np.array([0]),
        hour=np.array([21]),
        item=np.array([0]),
        category=np.array([2]),
        price=np.array([150.0], np.float32),
        interests=np.eye(12, dtype=bool)[[2]],
    )
    assert truth.click_probability(shown) == pytest.approx(0.317, abs=5e-4)
    assert truth.purchase_probability(shown) == pytest.approx(0.156, abs=5e-4)


def test_the_true_probabilities_leave_room_to_learn(rows):
    clicked = [row for row in rows if row["click"] == [1]]
    for label, among, least, most in (
        ("click", rows, 0.74, 0.83),
        ("purchase", clicked, 0.65, 0.8),
    ):
        best = roc_auc_score(column(among, label), column(among, f"true_{label}_probability"))
        assert least < best < most
