"""Writes the project's default data: an advertising impression log with known probabilities.

`generate` draws users, items and impressions. It draws the labels of each impression with the
probabilities of `input_pipelines.synthetic.truth`, which documents the formula. Every record
contains its true probabilities. So an evaluation shows how good the best possible model is on the
same files, as `bayes_auc` and `bayes_loss`, and you can compare a trained model with it.

    <out_dir>/_GENERATOR.json                                  the settings, written first
    <out_dir>/dt=2026-01-01/part-00000-of-00004.tfrecord       serialized tf.train.Example
    <out_dir>/dt=2026-01-01/_SUCCESS                           empty: this day is complete

A record holds

    user_id, user_country, device, item_id, item_category      string, one value
    user_age, hour                                             int64; some users have no user_age
    item_price                                                 float, above 0
    interests                                                  string, 0 to 5 category names
    click, purchase                                            int64 labels, 0 or 1
    true_click_probability                                     float, P(click = 1 | record)
    true_purchase_probability                                  float, P(purchase = 1 | click = 1)

800 items exist on the first day, and 40 new items join on each later day. In their first two days
they are shown as often as the average item. A few users see many of the ads (a Zipf-like
distribution). Rows within a day are in random order. By default, about 5.5 % of the rows have a
click, and about 10 % of the clicks have a purchase. The best possible AUC of click is about 0.81.

The generator never overwrites data that were made with other settings, and never changes a folder
that another program filled. No half-written day is visible. If it is killed, the next call
continues with the first day that has no _SUCCESS. Processes that call it on the same folder at the
same time take turns (flock). The same settings give the same bytes with the same versions of numpy
and protobuf. Each day has a separate random stream, so it does not matter which process made which
day.

    generate("/tmp/ads")                                       200,000 rows in 8 days

    python -m input_pipelines.synthetic --out_dir=/tmp/ads --rows=20000
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from feature_specs.files import documents, locks, staged
from input_pipelines.synthetic import truth

GENERATOR_VERSION = 1  # raise with any change that changes a byte of the data
SETTINGS_FILE = "_GENERATOR.json"
SUCCESS_FILE = "_SUCCESS"

_PEOPLE, _DAY = 0, 1  # first element of the spawn key of a random stream


class DayReport(NamedTuple):
    """What `generate` passes to `progress` after a day; `kept` if the day existed already."""

    name: str
    rows: int
    kept: bool


class _Settings(documents.Document):
    """The settings that decide the bytes of the data; stored in SETTINGS_FILE."""

    sort_keys = False

    version: int
    rows: int
    days: int
    shards_per_day: int
    first_day: str
    seed: int

    def check(self) -> None:
        for name, least in (("days", 1), ("shards_per_day", 1), ("seed", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}.")
        if self.rows < self.days * self.shards_per_day:
            raise ValueError(
                f"rows must be at least days * shards_per_day = {self.days * self.shards_per_day}"
                f" so that no file is empty, got {self.rows}."
            )
        try:
            datetime.date.fromisoformat(self.first_day)
        except ValueError as error:
            raise ValueError(
                f"first_day must be a date like '2026-01-01', got {self.first_day!r}."
            ) from error

    def day_name(self, day: int) -> str:
        date = datetime.date.fromisoformat(self.first_day) + datetime.timedelta(days=day)
        return f"dt={date.isoformat()}"


def generate(
    out_dir: str,
    *,
    rows: int = 200_000,
    days: int = 8,
    shards_per_day: int = 4,
    first_day: str = "2026-01-01",
    seed: int = 1,
    progress: Callable[[DayReport], None] | None = None,
) -> None:
    """Writes the impression log that the module docstring describes, or its missing days.

    Args:
        out_dir: a local folder; created if it does not exist. Call again with the same settings to
            continue after a kill. If the data are complete, the call returns immediately.
        rows: the number of all records, divided evenly among the days and their shards. The first
            ones get the remainder.
        days: the number of days; each has one folder.
        shards_per_day: the number of files for each day.
        first_day: the date of the first folder, as YYYY-MM-DD.
        seed: the seed of users, items, impressions and labels. The true probabilities are a fixed
            formula and have no seed.
        progress: called after each day, in order.

    Raises:
        ValueError: a setting is out of range, or `out_dir` has data that were made with other
            settings or by another program.
    """
    settings = _Settings(
        version=GENERATOR_VERSION,
        rows=rows,
        days=days,
        shards_per_day=shards_per_day,
        first_day=first_day,
        seed=seed,
    )
    settings.check()
    os.makedirs(out_dir, exist_ok=True)
    with locks.held(out_dir, wait=True):
        _claim(out_dir, settings)
        population: truth.Population | None = None
        for day, day_rows in enumerate(_even_parts(rows, days)):
            final = os.path.join(out_dir, settings.day_name(day))
            kept = os.path.exists(os.path.join(final, SUCCESS_FILE))
            if not kept:
                population = population or truth.draw_population(
                    _stream(settings, _PEOPLE), days=days
                )
                shutil.rmtree(final, ignore_errors=True)
                with staged.folder(final) as staging:
                    _write_day(staging, settings, population, day, day_rows)
            if progress is not None:
                progress(DayReport(settings.day_name(day), day_rows, kept))


def _claim(out_dir: str, settings: _Settings) -> None:
    """Writes the settings into a new folder, or refuses a folder that this generator cannot use."""
    path = os.path.join(out_dir, SETTINGS_FILE)
    existing = _Settings.load(path)
    if existing is None:
        strangers = sorted(name for name in os.listdir(out_dir) if name.startswith("dt="))
        if strangers:
            raise ValueError(
                f"out_dir {out_dir!r} has {strangers[0]!r} but no {SETTINGS_FILE}, so this"
                " generator did not make it. Choose another out_dir."
            )
        settings.save(path)
        return
    names = [name for name, value in settings if getattr(existing, name) != value]
    if names:
        was, now = (
            ", ".join(f"{name}={getattr(each, name)!r}" for name in names)
            for each in (existing, settings)
        )
        raise ValueError(
            f"out_dir {out_dir!r} has data that were made with {was}, but you asked for {now}."
            " Choose another out_dir, use the same settings, or remove the folder to make the data"
            " again."
        )


def _even_parts(total: int, parts: int) -> list[int]:
    return [total // parts + (part < total % parts) for part in range(parts)]


def _stream(settings: _Settings, *key: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(settings.seed, spawn_key=key))


def _write_day(
    folder: str, settings: _Settings, population: truth.Population, day: int, rows: int
) -> None:
    random = _stream(settings, _DAY, day)
    shown = truth.draw_impressions(random, population, day=day, rows=rows)
    click_probability = truth.click_probability(shown)
    purchase_probability = truth.purchase_probability(shown)
    click = random.random(rows) < click_probability
    purchase = click & (random.random(rows) < purchase_probability)
    records = _serialized(shown, click, purchase, click_probability, purchase_probability)
    for shard, shard_rows in enumerate(_even_parts(rows, settings.shards_per_day)):
        name = f"part-{shard:05d}-of-{settings.shards_per_day:05d}.tfrecord"
        with tf.io.TFRecordWriter(os.path.join(folder, name)) as writer:
            for _ in range(shard_rows):
                writer.write(next(records))
    with open(os.path.join(folder, SUCCESS_FILE), "wb"):
        pass


def _serialized(
    shown: truth.Impressions,
    click: np.ndarray,
    purchase: np.ndarray,
    click_probability: truth.Floats,
    purchase_probability: truth.Floats,
) -> Iterator[bytes]:
    categories = [category.name.encode() for category in truth.CATEGORIES]
    strings = {
        "user_id": [b"user_%05d" % user for user in shown.user.tolist()],
        "user_country": [truth.COUNTRIES[c].code.encode() for c in shown.country.tolist()],
        "device": [truth.DEVICES[d].name.encode() for d in shown.device.tolist()],
        "item_id": [b"item_%04d" % item for item in shown.item.tolist()],
        "item_category": [categories[c] for c in shown.category.tolist()],
    }
    ints = {
        "hour": shown.hour.tolist(),
        "click": click.astype(np.int64).tolist(),
        "purchase": purchase.astype(np.int64).tolist(),
    }
    floats = {
        "item_price": shown.price.tolist(),
        "true_click_probability": click_probability.tolist(),
        "true_purchase_probability": purchase_probability.tolist(),
    }
    ages, interests = shown.age.tolist(), shown.interests.tolist()
    for row, age in enumerate(ages):
        example = tf.train.Example()
        feature = example.features.feature
        for name, text in strings.items():
            feature[name].bytes_list.value.append(text[row])
        for name, integers in ints.items():
            feature[name].int64_list.value.append(integers[row])
        for name, real in floats.items():
            feature[name].float_list.value.append(real[row])
        if age >= 0:
            feature["user_age"].int64_list.value.append(age)
        likes = feature["interests"].bytes_list
        likes.SetInParent()  # a user without interests has the feature, with an empty list
        likes.value.extend(itertools.compress(categories, interests[row]))
        yield example.SerializeToString(deterministic=True)


def main(argv: Sequence[str] | None = None) -> None:
    """The command line. Prints one line for each day, and a last line with the speed."""
    parser = argparse.ArgumentParser(prog="python -m input_pipelines.synthetic")
    parser.add_argument("--out_dir", required=True)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--days", type=int, default=8)
    parser.add_argument("--shards_per_day", type=int, default=4)
    parser.add_argument("--first_day", default="2026-01-01")
    parser.add_argument("--seed", type=int, default=1)
    options = vars(parser.parse_args(argv))
    written = 0

    def report(day: DayReport) -> None:
        nonlocal written
        written += 0 if day.kept else day.rows
        print(f"{day.name}: {day.rows} rows {'kept' if day.kept else 'written'}", flush=True)

    start = time.perf_counter()
    generate(**options, progress=report)
    seconds = time.perf_counter() - start
    print(f"{written} rows written in {seconds:.1f} s, {written / seconds:,.0f} rows a second")
