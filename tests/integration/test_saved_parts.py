"""Partitioned variables and growing tables, through restart, evaluation, export and warm start."""

import re

import numpy as np
import pytest

import estimator_kit as ek
from tests.conftest import small_run, variables

pytestmark = pytest.mark.filterwarnings("ignore:`tf.layers.dense` is deprecated:UserWarning")

_MODEL = "tests.integration.parts_model:PartsModel"


def _run(ads, folder, **params):
    return small_run(
        ads, folder, model=_MODEL, model_params=params, max_steps=4, save_checkpoints_steps=2
    )


def _equal(ours, expected):
    assert ours.keys() == expected.keys()
    for name, values in expected.items():
        if name.endswith(("-keys", "-values")):  # A table has no order.
            ours[name], values = np.sort(ours[name]), np.sort(values)
        assert ours[name] == pytest.approx(values, abs=1e-6), name


@pytest.mark.parametrize(
    "params",
    [
        pytest.param({}, marks=pytest.mark.nightly),
        pytest.param({"moving_average": 0.9}, marks=pytest.mark.nightly),
    ],
)
def test_parts_and_tables_are_restored(ads, tmp_path, params):
    whole = _run(ads, tmp_path / "whole", **params)
    expected = ek.run(whole())
    kept = variables(tmp_path / "whole")
    assert kept["net/hidden/kernel"].shape[1] == 6  # In the checkpoint, the parts are joined.
    assert {"plain-keys", "plain-values", "dense-keys", "dense-values"} <= {*kept}
    assert sorted(kept["plain-values"]) == [1.0] * len(kept["plain-keys"])

    # A training that stopped in between ends as the one that did not.
    parts = _run(ads, tmp_path / "parts", **params)
    ek.run(parts(max_steps=2))
    again = ek.run(parts())
    _equal(variables(tmp_path / "parts"), kept)
    assert again.metrics == pytest.approx(expected.metrics, abs=1e-6)
    assert ek.run(parts(mode="evaluate")).metrics == pytest.approx(again.metrics, abs=1e-6)

    export = ek.run(parts(mode="export")).exports["final"]
    evaluated = ek.run(parts(mode="evaluate", model_dir=None, export_dir=export)).metrics
    assert evaluated["auc/click"] == pytest.approx(again.metrics["auc/click"], abs=1e-3)

    # A warm start takes the weights and the tables, also with another number of parts.
    warm = _run(ads, tmp_path / "warm", **{**params, "parts": 3, "learning_rate": 1e-9})
    ek.run(warm(warm_start_from=str(tmp_path / "parts"), max_steps=1))
    started = variables(tmp_path / "warm")
    names = {n for n in kept if re.fullmatch("net/[a-z]+/(kernel|bias)|(plain|dense)-.*", n)}
    assert len(names) == 8
    _equal({n: started[n] for n in names}, {n: kept[n] for n in names})
