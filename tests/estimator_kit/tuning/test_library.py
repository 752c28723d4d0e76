"""library: Optuna's import, and the samplers and pruners that a search asks for."""

from __future__ import annotations

import sys

import pytest

from estimator_kit.tuning import definition, search_file
from input_pipelines.errors import MissingPackageError

pytestmark = pytest.mark.no_tensorflow


def test_without_the_extra_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingPackageError) as error:
        definition.optuna()
    assert str(error.value).startswith(
        "--mode=tune needs the package optuna. Install it with `pip install 'estimator-kit[tune]'`"
    )


@pytest.mark.parametrize(
    ("pruner", "flags", "kind", "resources"),
    [
        ("none", {}, "NopPruner", None),
        ("median", {"save_checkpoints_steps": 10}, "NopPruner", None),
        (
            "hyperband", {"save_checkpoints_steps": 10, "max_steps": 90},
            "HyperbandPruner", (50, 450),
        ),
        ("hyperband", {"save_checkpoints_steps": 10}, "HyperbandPruner", (50, "auto")),
        (
            "hyperband", {"save_checkpoints_steps": 10, "max_steps": 10},
            "HyperbandPruner", (50, "auto"),
        ),
    ],
)  # fmt: skip
def test_a_pruner_counts_rows(pruner, flags, kind, resources):
    pytest.importorskip("optuna", reason="the extra tune")
    search = search_file.parse(
        {"metric": "loss", "trials": 1, "pruner": pruner, "parameters": {"a": {"range": [0, 1]}}}
    )
    made = definition.pruner(search, {**flags, "batch_size": 5})
    assert type(made).__name__ == kind
    if resources is not None:
        assert (made._min_resource, made._max_resource) == resources


def test_samplers_by_name():
    pytest.importorskip("optuna", reason="the extra tune")
    for name, kind in (("tpe", "TPESampler"), ("random", "RandomSampler")):
        search = search_file.parse(
            {"metric": "loss", "trials": 1, "sampler": name, "parameters": {"a": {"range": [0, 1]}}}
        )
        assert type(definition.sampler(search, 3)).__name__ == kind


def test_with_several_batch_sizes_the_smallest_one_comes_first():
    pytest.importorskip("optuna", reason="the extra tune")
    search = search_file.parse(
        {"metric": "loss", "trials": 1, "pruner": "hyperband",
         "parameters": {"batch_size": {"choice": [512, 256]}}}
    )  # fmt: skip
    flags = {"save_checkpoints_steps": 10, "max_steps": 90, "batch_size": 512}
    made = definition.pruner(search, flags)
    assert (made._min_resource, made._max_resource) == (2560, "auto")
