"""Every column kind has its place: in the list of kinds, and in each closed table.

`feature_specs.kinds` says what a new kind takes; these tests fail for one that lacks a part.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import typing

import pytest
import tensorflow as tf

import feature_specs
from estimator_kit.model import gathers
from feature_specs import kinds
from feature_specs.kinds import COLUMN_KINDS
from feature_specs.kinds.base import Column, Dense
from feature_specs.kinds.categorical import OverIds
from input_pipelines.transform.kinds import TRANSFORMS, Batch, value_of


def test_the_list_has_every_kind():
    classes = {
        kind
        for module in pkgutil.iter_modules(kinds.__path__)
        for _, kind in inspect.getmembers(
            importlib.import_module(f"feature_specs.kinds.{module.name}"), inspect.isclass
        )
    }
    concrete = {c for c in classes if issubclass(c, Column) and not inspect.isabstract(c)}
    assert {kind.kind: kind for kind in concrete} == COLUMN_KINDS
    assert len(concrete) == len(COLUMN_KINDS)


def test_every_kind_has_a_transform_or_ids_below_it():
    assert set(TRANSFORMS) == set(COLUMN_KINDS.values())
    by_the_model = [kind for kind, transform in TRANSFORMS.items() if transform is None]
    assert by_the_model
    for kind in by_the_model:
        assert issubclass(kind, OverIds) and not kind.categorical and kind.dense is not None


def test_every_dense_form_has_a_gather_and_every_kind_a_form_or_none():
    forms = set(typing.get_args(Dense))
    assert set(gathers.DENSE) == forms
    assert set(gathers.STEPS) == forms - {"flag"}
    assert {kind.dense for kind in COLUMN_KINDS.values()} == {*forms, None}


@pytest.mark.parametrize("kind", COLUMN_KINDS)
def test_fields_that_are_compared_by_row_are_fields(kind):
    assert COLUMN_KINDS[kind].by_row <= set(COLUMN_KINDS[kind].model_fields)


def test_a_kind_without_a_transform_is_named(document):
    spec = feature_specs.parse(document)
    batch = Batch(spec, {"user": tf.constant(["ann"])}, {})
    sentence = "column 'user_emb' is embedding, expected a kind with a transform: numeric, "
    with pytest.raises(TypeError, match=sentence):
        value_of(batch, "user_emb")
