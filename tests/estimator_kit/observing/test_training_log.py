"""training.jsonl: its measurements. It lists no step twice, and it stays small."""

from __future__ import annotations

import json

import pytest

import estimator_kit as ek
from estimator_kit.errors import ConfigError
from estimator_kit.observing import histories
from estimator_kit.observing.histories import MOST_LINES, Measurement, TrainingLog
from tests.conftest import small_run


def test_a_training_writes_losses_rate_and_gradients(ads, tmp_path):
    ek.run(small_run(ads, tmp_path / "run", max_steps=3)(model_params={"learning_rate": 0.25}))
    (entry,) = histories.read(str(tmp_path / "run"))
    assert entry.step == 1  # After the batch, as in TensorBoard.
    assert set(entry.losses) == {"click", "buy"}
    expected = entry.losses["click"] + 0.5 * entry.losses["buy"]
    assert entry.loss == pytest.approx(expected, rel=1e-5)
    assert entry.learning_rate == 0.25
    assert entry.gradient_norm > 0


def test_steps_after_the_checkpoint_are_measured_again(tmp_path):
    log = TrainingLog(str(tmp_path), 0)
    for step in (1, 101, 201):
        log.add(Measurement(step=step, loss=0.5))
    log.write()
    again = TrainingLog(str(tmp_path), 150)
    again.add(Measurement(step=151, loss=float("nan")))
    again.write()
    assert [(e.step, e.loss) for e in histories.read(str(tmp_path))] == [
        (1, 0.5), (101, 0.5), (151, None),
    ]  # fmt: skip


def test_a_long_training_keeps_every_second_entry(tmp_path):
    log = TrainingLog(str(tmp_path), 0)
    for step in range(3 * MOST_LINES + 1):
        log.add(Measurement(step=step, loss=0.1))
    log.write()
    steps = [entry.step for entry in histories.read(str(tmp_path))]
    assert len(steps) <= MOST_LINES
    assert {b - a for a, b in zip(steps, steps[1:])} == {4}


def test_a_damaged_line_is_named(tmp_path):
    path = tmp_path / "observed" / "training.jsonl"
    path.parent.mkdir()
    for damaged in (b"{", b'{"step": \xdd}', b"\xff"):
        path.write_bytes(json.dumps({"step": 1, "loss": 0.5}).encode() + b"\n" + damaged + b"\n")
        with pytest.raises(ConfigError, match=r"training\.jsonl:2: .*or remove the line"):
            histories.read(str(tmp_path))
