"""The kind `hash_bucket`: values hashed to ids. Does not import TensorFlow."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from feature_specs.entry import field
from feature_specs.kinds.base import Entries, Reference
from feature_specs.kinds.lookup import Lookup


class HashBucket(Lookup):
    """A string or integer, hashed to an id in [0, size). Different values may share an id."""

    changes = "values"

    kind = "hash_bucket"
    categorical = True
    source: str = Field(alias="hash_bucket", description="The name of a string or int64 feature.")
    size: Annotated[int, Field(ge=2, le=2**62)] = Field(
        description="The number of ids. A larger number has fewer collisions and needs more memory."
    )
    sequence: bool = field(
        False,
        changes="weights",
        description="`true` keeps the values of a list as separate steps, for models that read "
        "steps in order.",
    )

    def cross_problem(self, spec: Entries, key: str) -> str:
        rename = " Rename the column, so that its name means the feature."
        return (
            f"column {key!r} is a hash_bucket, expected the feature {self.source!r} itself: "
            f"hashing twice only adds collisions.{rename if key == self.source else ''}"
        )

    def is_sequence(self, spec: Entries) -> bool:
        return self.sequence

    def id_count(self, spec: Entries) -> int:
        return self.size

    def ids_meaning(self, spec: Entries) -> dict[str, Any]:
        # An integer is hashed as its digits, so the dtype of the feature does not count.
        return {"kind": self.kind, "size": self.size}

    def feature_column(self, reference: Reference, name: str) -> Any:
        of = reference.tf.feature_column
        if self.sequence:
            make = of.sequence_categorical_column_with_hash_bucket
        else:
            make = of.categorical_column_with_hash_bucket
        dtype = reference.tf.as_dtype(reference.spec.features[self.source].dtype)
        return make(self.source, self.size, dtype=dtype)
