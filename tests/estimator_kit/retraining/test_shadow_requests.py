"""Which logged requests are the newest, and what happens if models cannot answer them."""

from __future__ import annotations

import logging
import os
import types

import numpy as np
import pytest
import tensorflow as tf

from estimator_kit.config.areas.monitoring import Monitoring
from estimator_kit.errors import ConfigError
from estimator_kit.retraining import shadow_requests
from estimator_kit.retraining.shadow_requests import Asked, newest
from feature_specs.parser import parser
from input_pipelines.errors import DataError
from tests.conftest import DOCUMENT, make_rows
from tests.estimator_kit.monitoring.logs import column, predict_log, records_of, write_log

SPEC = parser.parse(DOCUMENT)
RECORDS = records_of(make_rows(6, seed=1))


def write(folder, name, times, *, written, rows=1, **options):
    """A log with a request at each time. Its file was written at `written`."""
    logs = [
        predict_log(RECORDS[:rows], {"click/logits": column([0.0] * rows)}, time=time, **options)
        for time in times
    ]
    path = write_log(folder / "logs" / name, logs)
    os.utime(path, (written, written))
    return path


def found(folder, count, **settings):
    settings = {"request_logs": (str(folder / "logs"),), **settings}
    defaults = {"request_time": None, "request_model": None}
    return newest(types.SimpleNamespace(**{**defaults, **settings}), lambda v: SPEC, count=count)


def test_the_newest_requests_of_several_files(tmp_path, monkeypatch):
    write(tmp_path, "c.tfrecord", [100, 101], written=101)
    write(tmp_path, "a.tfrecord", [102, 200], written=200, rows=2)
    write(tmp_path, "b.tfrecord", [150, 151], written=300)
    asked = found(tmp_path, 3)
    assert asked.requests.tolist() == [0, 1, 2, 2]  # At 150, 151 and 200.
    assert asked.records == [RECORDS[0], RECORDS[0], *RECORDS[:2]]
    assert asked.note == ("3 logged requests, 4 rows, 1970-01-01T00:02:30Z to 1970-01-01T00:03:20Z")
    assert len(found(tmp_path, 100).records) == 8
    # A file that was written before the oldest of them cannot have a newer one, and is not read.
    read = []
    own = shadow_requests.RequestLogs.blocks
    monkeypatch.setattr(
        shadow_requests.RequestLogs, "blocks",
        lambda self, path: (read.append(os.path.basename(path)), own(self, path))[1],
    )  # fmt: skip
    found(tmp_path, 3)
    assert read == ["b.tfrecord", "a.tfrecord"]


def test_what_is_not_read_is_told(tmp_path, caplog):
    path = write(tmp_path, "a.tfrecord", [100], written=100)
    write(tmp_path, "b.tfrecord", [90], written=90)
    with open(path, "r+b") as file:
        file.seek(20)
        file.write(b"\0\0\0\0")
    with caplog.at_level(logging.WARNING):
        asked = found(tmp_path, 10)
    assert len(asked.records) == 1 and asked.note.endswith("1 damaged log file left out")
    assert any(text.startswith("a log file is left out: ") for text in caplog.messages)


def test_without_files_there_are_no_requests(tmp_path):
    asked = found(tmp_path, 10, request_logs=(str(tmp_path / "logs" / "*"),))
    assert asked.records == [] and "--request_logs" in asked.note
    shadow = shadow_requests.compared(
        SPEC, asked, candidate="c", live="l", objectives=["click"], batch_size=4
    )
    assert shadow.problem.startswith("no logged request can be answered: ")


def test_logs_of_several_models_need_a_choice(tmp_path):
    write(tmp_path, "a.tfrecord", [100], written=100)
    write(tmp_path, "b.tfrecord", [90], written=90, model="other")
    with pytest.raises(DataError, match="--request_model"):
        found(tmp_path, 10)
    assert len(found(tmp_path, 10, request_model="ads").records) == 1


@pytest.mark.parametrize("broken", ["candidate", "live model"])
def test_a_model_that_cannot_read_requests(broken, monkeypatch):
    def predictions_of(spec, path, objectives, records, **options):
        if path == broken:
            raise tf.errors.InvalidArgumentError(None, None, "Feature: age is required")
        return {"click": np.zeros(len(records))}

    monkeypatch.setattr(shadow_requests, "predictions_of", predictions_of)
    asked = Asked(np.arange(2), RECORDS[:2], "2 requests")
    options = {"objectives": ["click"], "batch_size": 4}
    shadow = shadow_requests.compared(
        SPEC, asked, candidate="candidate", live="live model", **options
    )
    assert shadow.problem.startswith(f"the {broken} cannot answer logged requests: ")
    shadow = shadow_requests.compared(SPEC, asked, candidate="a", live="b", **options)
    assert shadow.problem is None and shadow.logits == {"click"} and shadow.top_k == 10


def test_a_condition_without_logs_is_an_error_before_training():
    gate = {"conditions": [{"metric": "shadow_order/click", "max": 0.1}]}
    spec = parser.parse({**DOCUMENT, "retraining": {"gate": gate}})
    with pytest.raises(ConfigError) as error:
        shadow_requests.check(spec, Monitoring())
    assert str(error.value) == (
        "--request_logs is missing. The gate has the condition shadow_order/click, for which "
        "candidate and live model answer logged requests. Name the request logs of the server, or "
        "remove the condition."
    )
    shadow_requests.check(SPEC, Monitoring())
