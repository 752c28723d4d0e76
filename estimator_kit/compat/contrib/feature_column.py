"""tf.contrib.feature_column: columns of sequences, from `tf.feature_column`."""

from __future__ import annotations

from . import _sources

__all__ = """
    sequence_categorical_column_with_hash_bucket sequence_categorical_column_with_identity
    sequence_categorical_column_with_vocabulary_file
    sequence_categorical_column_with_vocabulary_list sequence_numeric_column
""".split()

REMEDIES = {
    "sequence_input_layer": "Use tf.keras.experimental.SequenceFeatures(columns)(features), which "
    "gives the tensor and the lengths.",
}

__getattr__ = _sources.lookup(__name__, ["tensorflow._api.v2.compat.v1.feature_column"])
