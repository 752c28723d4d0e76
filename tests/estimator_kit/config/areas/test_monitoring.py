"""The settings of monitoring: which are needed, and messages about wrong ones."""

from __future__ import annotations

import pytest

from estimator_kit.config.areas.monitoring import period_seconds, seconds_of_time
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.errors import ConfigError

pytestmark = pytest.mark.no_tensorflow

GOOD = {"mode": "monitor", "spec": "s", "model_dir": "m", "request_logs": ("logs",)}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"request_logs": ()}, "--request_logs is missing. --mode=monitor needs the request logs "
         "of the server."),
        ({"monitor_period": "7h"}, "--monitor_period: got '7h', expected a divisor of a day from "
         "1m to 1d, such as 1h."),
        ({"monitor_period": "2d"}, "--monitor_period: got '2d', expected a divisor of a day from "
         "1m to 1d, such as 1h."),
        ({"monitor_period": "hour"}, "--monitor_period: got 'hour', expected a whole number with "
         "the unit s, m, h or d, such as 12h."),
        ({"monitor_until": "tomorrow"}, "--monitor_until: expected a time in UTC such as "
         "2026-01-31 or 2026-01-31T13:30Z, got 'tomorrow'."),
        ({"monitor_until": "2026-01-31T13:30+01:00"}, "--monitor_until: expected a time in UTC "
         "such as 2026-01-31 or 2026-01-31T13:30Z, got '2026-01-31T13:30+01:00'."),
        ({"model_dir": "ftp://h/m"}, "--model_dir: expected a local or mounted folder, got "
         "'ftp://h/m'. Retraining needs locks and atomic renames, which other file systems do not "
         "have."),
    ],
)  # fmt: skip
def test_wrong_settings_are_named(fields, message):
    with pytest.raises(ConfigError) as error:
        ExperimentConfig(**{**GOOD, **fields})
    assert message in str(error.value).splitlines()


def test_periods_and_times():
    assert ExperimentConfig(**GOOD).monitor_period == "1d"
    assert [period_seconds(text) for text in ("1m", "5m", "6h", "1d")] == [60, 300, 21600, 86400]
    assert seconds_of_time("1970-01-02") == 86_400
    assert seconds_of_time("1970-01-01T01:30Z") == seconds_of_time("1970-01-01T01:30:00") == 5400
