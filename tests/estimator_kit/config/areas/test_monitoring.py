"""The settings of monitoring: which are needed, and messages about wrong ones."""

from __future__ import annotations

import pytest

from estimator_kit.config.areas.monitoring import seconds_of_time
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.errors import ConfigError

pytestmark = pytest.mark.no_tensorflow

GOOD = {"mode": "monitor", "spec": "s", "model_dir": "m", "request_logs": ("logs",)}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"request_logs": ()}, "--request_logs is missing. --mode=monitor needs the request logs "
         "of the server."),
        ({"period": "7h"}, "--period: expected a length that divides a day, such as 1d, 1h or 5m, "
         "got '7h'."),
        ({"period": "hour"}, "--period: expected minutes, hours or days such as 30m, 6h or 7d, got "
         "'hour'."),
        ({"period": "1h,Europe/Berln"}, "--period: unknown time zone 'Europe/Berln'. Did you mean "
         "'Europe/Berlin'?"),
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


def test_times():
    assert seconds_of_time("1970-01-02") == 86_400
    assert seconds_of_time("1970-01-01T01:30Z") == seconds_of_time("1970-01-01T01:30:00") == 5400


@pytest.mark.parametrize(
    "text", ["20260131", "2026-W05-6", "2026-01-31T1330", "2026-01-31T13:30:00,5", "2026-02-30"]
)
def test_every_python_reads_the_same_times(text):
    with pytest.raises(ValueError, match="expected a time in UTC such as 2026-01-31"):
        seconds_of_time(text)
