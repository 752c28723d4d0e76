"""Times are read in the graph as Python reads them, on generated values."""

from __future__ import annotations

import datetime
import random

import numpy as np
import pytest
import tensorflow as tf

from feature_specs.kinds.time import PARTS, UNITS, form_of, read
from input_pipelines.transform import times

TEXTS = [
    "%Y-%m-%d", "%Y-%m-%d %H:%M", "%m/%d/%y", "%d.%m.%Y %H:%M:%S", "%Y%m%d", "%y%m%d%H",
    "%Y-%m-%dT%H:%M:%S.%f%z", "%H:%M", "%m", "(%d+%m)",
]  # fmt: skip
INTEGERS = ["%Y%m%d", "%y%m%d%H", "%H", "seconds", "milliseconds"]
# Leap days and their neighbors, ends of centuries, and the ends of what two digits can say.
DAYS = [
    "2000-02-29", "2000-03-01", "1999-12-31", "2000-01-01", "2016-02-29", "2017-02-28",
    "1969-01-01", "2068-12-31", "1970-01-01", "1972-02-29", "2001-09-09",
]  # fmt: skip
BROKEN = [
    "", "-1", "x", "2017-02-29", "2000-02-30", "2/29/17", "29.2.1900 1:00:00", "20170229", "24:00",
    "9:60", "0000-01-01", "10000-01-01", "2017-11-07\n", "17022924", "2017-11-7 1:2",
    "2017-11-0\N{ARABIC-INDIC DIGIT SEVEN}",
]  # fmt: skip


def some_times(count):
    rng = random.Random(1)
    for day in DAYS:
        yield datetime.datetime.fromisoformat(day) + datetime.timedelta(hours=rng.randrange(24))
    for _ in range(count):
        yield datetime.datetime(1969, 1, 1) + datetime.timedelta(seconds=rng.randrange(3 * 10**9))


def parts(values, form):
    """The parts of values as the graph reads them, -1 for a value that is not a time."""
    gives = {"year", *PARTS} if form in UNITS else form_of(form).gives
    names = [part for part, needs in PARTS.items() if needs <= gives]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:  # As in a training.
        found = times.parsed(tf.constant(values), form)
        tensors = {n: tf.where(found.readable, times.part(found, n), -1) for n in names}
        return {name: ids.tolist() for name, ids in session.run(tensors).items()}


def expected(values, form, names):
    read_times = [read(value, form) for value in values]
    return {
        name: [
            -1 if t is None else t.weekday() if name == "weekday" else getattr(t, name)
            for t in read_times
        ]
        for name in names
    }


@pytest.mark.parametrize("form", TEXTS)
def test_text(form):
    zone = datetime.timezone(datetime.timedelta(hours=2))
    zeros = [time.replace(tzinfo=zone).strftime(form) for time in some_times(150)]
    # A single digit for 09, where a separator follows.
    single = [text.replace("/0", "/").replace(" 0", " ").replace(".0", ".") for text in zeros]
    values = [*zeros, *(single if form_of(form).digits is None else []), *BROKEN]
    found = parts(np.array(values), form)
    assert found == expected(values, form, found) and found
    # The reference is Python's own reading.
    for i, time in enumerate(some_times(150)):
        for name in found:
            assert found[name][i] == (time.weekday() if name == "weekday" else getattr(time, name))


@pytest.mark.parametrize("form", INTEGERS)
def test_integers(form):
    if form in UNITS:
        epoch = datetime.datetime(1970, 1, 1)
        values = [int((t - epoch).total_seconds()) * UNITS[form] for t in some_times(150)]
    else:
        values = [int(time.strftime(form)) for time in some_times(150)]
    values += [-1, -2, 0, 1, 99, 100, 20170229, 2**40, 2**62, -(2**62), -62_135_596_800_000]
    found = parts(np.array(values, np.int64), form)
    assert found == expected(values, form, found) and found
    assert any(np.array(found["hour" if "hour" in found else "day"]) == -1)
