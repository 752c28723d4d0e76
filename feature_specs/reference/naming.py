"""Names of columns as TensorFlow's canned estimators write them into checkpoints.

`{hash_bucket: user_id}` is the variable `linear/linear_model/user_id/weights`, and an embedding of
it `.../user_id_embedding/embedding_weights`: the name comes from the features, not from the spec's
own name of the column. Keeping to it lets checkpoints of the kit and of canned estimators
interchange. Imports no TensorFlow.
"""

from __future__ import annotations

from feature_specs.kinds.column_kinds import (
    Bucketized,
    Crossed,
    DynamicEmbedding,
    Embedding,
    Indicator,
    Ragged,
    Weighted,
)
from feature_specs.spec import FeatureSpec


def canned_name(spec: FeatureSpec, name: str) -> str:
    """The `.name` of the `tf.feature_column` that column `name` of the spec stands for."""
    column = spec.columns[name]
    if isinstance(column, Bucketized):
        return f"{spec.numeric_source(column).source}_bucketized"
    if isinstance(column, Crossed):
        keys = [canned_name(spec, key) if key in spec.columns else key for key in column.sources]
        return "_X_".join(sorted(keys))
    if isinstance(column, Embedding):
        shared = "_shared" if column.shared is not None else ""
        return f"{canned_name(spec, column.source)}{shared}_embedding"
    if isinstance(column, Weighted):
        return f"{canned_name(spec, column.source)}_weighted_by_{column.weight}"
    if isinstance(column, (DynamicEmbedding, Ragged)):  # There is no such feature column.
        return name
    if isinstance(column, Indicator):
        return f"{canned_name(spec, column.source)}_indicator"
    return column.source
