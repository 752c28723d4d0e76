"""What a first training gets, by its rows and its head."""

from __future__ import annotations

import pytest

from input_pipelines.prepare.analyze.first_settings import suggest

pytestmark = pytest.mark.no_tensorflow


def lines(**data):
    return [f"{setting.flag}={setting.value}" for setting in suggest(**data)]


def test_a_small_table_with_two_classes():
    assert lines(rows=5_900, head="binary", objective="match", deep_columns=190) == [
        "model=dnn", "model_params=hidden_units=[128,64]", "model_params=dropout=0.5",
        "batch_size=128", "best_metric=auc/match", "early_stopping_patience=5", "exporters=best",
    ]  # fmt: skip


def test_many_rows_need_no_dropout():
    assert lines(rows=1_000_000, head="binary", objective="click", deep_columns=9) == [
        "model=dnn", "model_params=hidden_units=[128,64]", "batch_size=512",
        "best_metric=auc/click", "early_stopping_patience=3", "exporters=best",
    ]  # fmt: skip


def test_numbers_get_no_dropout_and_smaller_batches():
    found = lines(rows=59_000, head="regression", objective="price", deep_columns=3)
    assert not any("dropout" in line for line in found)
    assert "batch_size=256" in found and "best_metric=loss" in found
    classes = lines(rows=59_000, head="binary", objective="click", deep_columns=3)
    assert "model_params=dropout=0.3" in classes and "batch_size=512" in classes


def test_other_models():
    assert lines(rows=900, head="next_item", objective="next", deep_columns=3)[:2] == [
        "model=sasrec", "batch_size=32",
    ]  # fmt: skip
    assert lines(rows=900, head="binary", objective="y")[0] == "model=linear"


@pytest.mark.parametrize(("rows", "epochs"), [(900, 10), (900_000, 3)])
def test_without_evaluation_files_the_length_is_fixed(rows, epochs):
    found = lines(rows=rows, head="binary", objective="y", deep_columns=3, evaluated=False)
    assert f"epochs={epochs}" in found
    assert not any(line.startswith("early_stopping") for line in found)


@pytest.mark.parametrize(
    ("rows", "batch"),
    [(1, 32), (2_559, 32), (2_560, 64), (20_479, 256), (20_480, 512), (10**9, 512)],
)
def test_an_epoch_of_a_small_table_has_at_least_40_steps(rows, batch):
    assert f"batch_size={batch}" in lines(rows=rows, head="binary", objective="y")
