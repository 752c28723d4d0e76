"""--input_fn in a config: its name, and what does not go with it."""

from __future__ import annotations

import functools
import re

import pytest

from estimator_kit.config.areas.data import Data
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.flags import resolved_flags
from estimator_kit.errors import ConfigError

pytestmark = pytest.mark.no_tensorflow

TRAIN = {"mode": "train", "spec": "s", "model_dir": "m", "max_steps": 1}


def rows(mode):
    return []


class Rows:
    def __call__(self, mode):
        return []

    def read(self, mode):
        return []


@pytest.mark.parametrize(
    ("function", "name"),
    [
        ("my_rows:read", "my_rows:read"),
        (rows, f"{__name__}:rows"),
        (functools.partial(rows), f"{__name__}:rows"),
        (lambda mode: [], f"{__name__}:<lambda>"),
        (Rows(), f"{__name__}:Rows"),
        (Rows().read, f"{__name__}:Rows.read"),
    ],
)
def test_a_config_keeps_the_function_and_its_name(function, name):
    config = ExperimentConfig(**TRAIN, input_fn=function)
    assert config.input_fn == name
    assert f"--input_fn={name}\n" in resolved_flags(config)
    assert config.own_function is (None if isinstance(function, str) else function)
    assert Data(input_fn=function).input_fn == name


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"input_fn": "rows"}, "--input_fn: expected package.module:function, such as my_rows:read,"
         " got 'rows'."),
        ({"input_fn": 3}, "--input_fn: expected a string, got 3."),
        ({"train_files": "a", "input_version": "1"}, "--input_version names the rows of --input_fn,"
         " which is missing. Give both."),
        ({"train_files": "a"}, "--input_fn and --train_files do not go together. Give "),
        ({"train_mix": "a=1"}, "--input_fn and --train_mix do not go together. Give one of them."),
        ({"keep_negatives": "0.1"}, "--input_fn and --keep_negatives do not go together. A draw "
         "needs the file of each row. Write the rows to files with ek.write_examples, and use "
         "--train_files."),
        ({"input_cache_dir": "c"}, "--input_fn and --input_cache_dir do not go together. A cache "),
        ({"data_service": "grpc://h:1"}, "--input_fn and --data_service do not go together. Its "
         "workers do not run your code."),
        ({"corrupt_data_policy": "skip_record"}, "--corrupt_data_policy=skip_record leaves out "
         "records of files. Leave out bad rows in the function of --input_fn"),
        ({"train_days": "2026-01-01"}, "--train_files is missing. --train_days chooses days"),
        *(
            ({"mode": mode, **more}, f"--input_fn does not go with --mode={mode}, which reads "
             "files. Write the rows to files with ek.write_examples, and use --train_files.")
            for mode, more in {
                "tune": {"search": "s.yaml", "eval_files": "e"}, "retrain": {"window": "1d"},
                "analyze": {}, "check_data": {},
            }.items()
        ),
    ],
)  # fmt: skip
def test_what_does_not_go_with_it(values, message):
    given = {**TRAIN, **({} if "input_version" in values else {"input_fn": rows}), **values}
    with pytest.raises(ConfigError) as error:
        ExperimentConfig(**given)
    assert message in str(error.value)


def test_it_takes_the_place_of_files():
    missing = "--train_files is missing. --mode=train needs it unless you give --train_mix or "
    with pytest.raises(ConfigError, match=re.escape(f"{missing}--input_fn.")):
        ExperimentConfig(**TRAIN)
    for mode in ("train_and_evaluate", "evaluate", "export"):
        ExperimentConfig(**{**TRAIN, "mode": mode}, input_fn=rows)
    # The flagfile of a training with own rows, whose other modes read files.
    more = {"input_cache_dir": "c", "corrupt_data_policy": "skip_record", "input_fn": rows}
    ExperimentConfig(**{**TRAIN, "mode": "evaluate", "eval_files": "e", **more})
    ExperimentConfig(**{**TRAIN, "mode": "predict", "predict_files": "e", **more})
