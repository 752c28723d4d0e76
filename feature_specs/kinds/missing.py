"""The kind `is_missing`, and what columns have in common that know a missing value.

    features: {income: {dtype: float32, default: -1}}      # No record has -1, so it means missing.
    columns:
      income_scaled:  {numeric: income, missing: 43000}    # The median, in place of -1.
      income_bucket:  {bucketized: income, boundaries: [20000, 60000], missing: own_bucket}
      income_missing: {is_missing: income}                 # 1 for -1, otherwise 0.

A record without a feature gets its default, wherever the record comes from. So a default that no
record has means that the value is missing. Does not import TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn, Optional

from pydantic import Field

from feature_specs.entry import Scalar
from feature_specs.errors import Path, Problem, unknown
from feature_specs.feature import Feature
from feature_specs.kinds.base import Entries, Reference, Sourced, path_to
from feature_specs.kinds.bounds import nearest_float32


def marker(feature: Feature) -> Scalar:
    """The default of a feature as records and requests have it: of a float32, the nearest one."""
    assert feature.default is not None, "checked by default_problems"
    is_float = feature.dtype == "float32" and not isinstance(feature.default, str)
    return nearest_float32(feature.default) if is_float else feature.default  # type: ignore[arg-type]


def default_problems(spec: Entries, feature_name: str, path: Path) -> Iterator[Problem]:
    """Checks that a feature has a default that a column can treat as missing."""
    feature = spec.features[feature_name]
    if feature.decode is not None:
        yield Problem(
            path,
            f"feature {feature_name!r} is decoded to numbers, and none of them means missing. Read "
            "a separate feature that says whether it is missing.",
        )
    elif feature.variable:
        yield Problem(
            path,
            f"feature {feature_name!r} is a list, which has no default: a record without it has an "
            "empty list. Read a feature of one value.",
        )
    elif feature.default is None:
        example = "''" if feature.dtype == "string" else "-1"
        yield Problem(
            path,
            f"feature {feature_name!r} has no default, so a record without it is an error. Give it "
            f"a default that no record has, such as {example}.",
        )


class IsMissing(Sourced):
    """Whether a record has no value of a feature: 1 if the value is the feature's default, else 0.

    The default must be a value that no record has. A neural network reads one number, and a linear
    model a category with two ids. A fixed number of values is missing if all are the default.
    """

    changes = "values"

    kind = "is_missing"
    categorical = True
    dense = "flag"
    by_row = frozenset({"source"})
    source: str = Field(
        alias="is_missing",
        description="The name of a feature with a default. It is not a list, and has no `decode`.",
    )

    def source_problems(self, spec: Entries, name: str) -> Iterator[Problem]:
        if self.source not in spec.features:
            path = path_to(self, name)
            yield unknown(path, self.source, "the name of a feature", list(spec.features))
            return
        yield from default_problems(spec, self.source, path_to(self, name))

    def missing_value(self, feature: Feature) -> Optional[Scalar]:
        return marker(feature)

    def id_count(self, spec: Entries) -> int:
        return 2

    def ids_meaning(self, spec: Entries) -> dict[str, Any]:
        return {"kind": self.kind}

    def width(self, spec: Entries) -> int:
        return 1

    def canned_name(self, spec: Entries, name: str) -> str:
        return name

    def feature_column(self, reference: Reference, name: str) -> NoReturn:
        raise ValueError(
            f"column {name!r} is is_missing, which tf.feature_column does not have. Train it with "
            "a ModelFn."
        )
