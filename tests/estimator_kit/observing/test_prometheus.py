"""`--prometheus_file` of a training: the metrics in Prometheus's text format."""

from __future__ import annotations

import pytest

from estimator_kit.errors import ConfigError
from estimator_kit.observing import prometheus
from estimator_kit.result import InputProfile, RunResult
from feature_specs.files import documents

RESULT = RunResult(
    mode="train", global_step=800, rows_trained=4000, rows_evaluated=500,
    metrics={"auc/click": 0.75, "auc/buy": None}, input_profile=InputProfile(share_waiting=0.25),
)  # fmt: skip


def values(text):
    label = 'model="ads",model_dir="/runs/ads"'
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return [line.removeprefix("estimator_kit_training_").replace(label, "_") for line in lines]


def test_a_training_has_its_numbers_and_its_end():
    text = prometheus.text_of_run(RESULT, model_dir="/runs/ads", ended=1.7e9, failed=False)
    assert values(text) == [
        "end_timestamp_seconds{_} 1.7e+09",
        "failed{_} 0.0",
        "global_step{_} 800.0",
        "rows_trained{_} 4000.0",
        "rows_evaluated{_} 500.0",
        "share_waiting{_} 0.25",
        'metric{metric="auc/click",_} 0.75',
    ]


def test_a_run_that_failed_before_it_began_has_no_numbers():
    text = prometheus.text_of_run(None, model_dir="/runs/ads", ended=1.7e9, failed=True)
    assert values(text) == ["end_timestamp_seconds{_} 1.7e+09", "failed{_} 1.0"]


def test_a_file_of_something_else_is_not_replaced(tmp_path):
    path = tmp_path / "ads.prom"
    prometheus.check(str(path))
    text = prometheus.text_of_run(RESULT, model_dir="/runs/ads", ended=1.7e9, failed=False)
    for content in ("", text):
        path.write_text(content)
        prometheus.check(str(path))
    path.write_text("rome\noslo\n")
    with pytest.raises(ConfigError) as error:
        prometheus.check(str(path))
    assert str(error.value) == (
        f"--prometheus_file={path} is not a file of metrics: it starts with 'rome\\nos', "
        "expected '# HELP '. Choose another path."
    )


def test_a_file_that_cannot_be_read_is_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "ads.prom"
    path.touch()

    def forbidden(*arguments):
        raise PermissionError(13, "Permission denied")

    # A superuser may read anything, so the system's answer is made up.
    monkeypatch.setattr("builtins.open", forbidden)
    with pytest.raises(ConfigError) as error:
        prometheus.check(str(path))
    assert str(error.value) == (
        f"--prometheus_file={path}: Permission denied. Choose another path."
    )


def test_a_file_of_something_else_in_a_store_is_not_replaced():
    path = "ram://test_prometheus/ads.prom"
    prometheus.check(path)
    documents.write_text(path, "rome")
    with pytest.raises(ConfigError, match="is not a file of metrics: it starts with 'rome'"):
        prometheus.check(path)
