"""The base of models over fields: embeddings with equal dimensions that the model compares.

A field group lists one embedding per field of the record. For a number, use an embedding of a
bucketized column. Such a model reads up to three groups. A column that is in two groups has one
table: as in the papers, the deep part reads the embeddings of the fields.
"""

from __future__ import annotations

from typing import Optional

import tensorflow as tf

from estimator_kit.model import group_checks, input_layer
from estimator_kit.model.model_fn import ModelFn
from input_pipelines.transform.transforms import Features


class FieldModel(ModelFn):
    """Reads the groups that its parameters `fields_group`, `deep_group`, `wide_group` name."""

    def _group(self, part: str) -> Optional[str]:
        return getattr(self.params, f"{part}_group", None)

    def groups(self) -> tuple[str, ...]:
        found = (self._group(part) for part in ("wide", "fields", "deep"))
        return tuple(dict.fromkeys(group for group in found if group is not None))

    def check_spec(self) -> None:
        for part, check in (
            ("wide", group_checks.check_linear_group),
            ("fields", group_checks.check_field_group),
            ("deep", group_checks.check_dense_group),
        ):
            group = self._group(part)
            if group is not None:
                check(self.spec, group)
        group_checks.check_same_scope(self.spec, self._read_together(), "deep_group")

    def _read_together(self) -> list[str]:
        groups = (self._group("fields"), self._group("deep"))
        return [group for group in groups if group is not None]

    def inputs(self, features: Features) -> tuple[tf.Tensor, Optional[tf.Tensor]]:
        """(fields [rows, fields, dimension], deep input [rows, width] or None), both float32.

        Makes the embedding tables in the current scope.
        """
        fields, deep = self._group("fields"), self._group("deep")
        names = [
            name
            for group in self._read_together()
            for name in group_checks.columns_of(self.spec, group)
        ]
        dense = input_layer.dense_columns(self.spec, names, features)
        assert fields is not None
        return (
            input_layer.fields_of(self.spec, fields, dense),
            None if deep is None else input_layer.side_by_side(self.spec, deep, dense),
        )

    def wide_logits(self, features: Features) -> tf.Tensor:
        """The first-order part: float32 [rows, self.logits_dimension]."""
        with tf.compat.v1.variable_scope("linear"):
            group = self._group("wide")
            assert group is not None
            return self.linear_logits(features, group)
