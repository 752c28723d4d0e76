"""The group `fields` of a first spec: one embedding for each category and each bucketized number.

    color_emb:        {embedding: color, dimension: 8}           # also in `deep`
    price_bucket_emb: {embedding: price_bucket, dimension: 8}

`fm`, `deepfm`, `xdeepfm` and `autoint` multiply or compare fields, so all have one dimension. They
read `fields` and `deep` together, and a category has one table for both. So the
embeddings in `deep` have this dimension, too. With many rows, `deep` also has the embeddings of
bucketized numbers: a bucket has its own vector, and layers learn the effect of a number such as
a latitude slowly (Gorishniy et al., 2022). This module only changes choices.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from feature_specs.kinds import COLUMN_KINDS
from input_pipelines.prepare.analyze import vocabularies
from input_pipelines.prepare.analyze.columns import Choice, Entry, free_name

# A table of many fields would otherwise be slow, and wide vectors learn rare ids badly.
_LARGEST_DIMENSION = 16

# The default of a spec, 1 / sqrt(dimension), makes the sum over pairs of fields start far from 0.
# See benchmarks/quality.md, which compares both for fm, deepfm and dnn.
_FIRST_STDDEV = 0.05


# With fewer rows, vectors of buckets learn noise: they helped on a table of 54,000 rows of prices,
# and not on one of 8,000 rows with 190 columns.
_ROWS_FOR_BUCKETS = 10_000


def with_fields(choices: Mapping[str, Choice], categories: int, rows: int = 0) -> dict[str, Choice]:
    """The choices with an embedding of one dimension for each field.

    Args:
      choices: the choices by feature.
      categories: the most different values of a feature with categories.
      rows: the number of records.
    """
    taken = frozenset(name for choice in choices.values() for name in _names(choice))
    dimension = min(vocabularies.embedding_dimension(categories), _LARGEST_DIMENSION)
    return {
        name: _with_fields(
            choice, dimension, categories, taken | {*choices}, buckets=rows >= _ROWS_FOR_BUCKETS
        )
        for name, choice in choices.items()
    }


def starting_small(choices: Mapping[str, Choice]) -> dict[str, Choice]:
    """The choices with embeddings of the groups deep and fields that start near 0."""
    return {
        name: dataclasses.replace(
            choice, columns=tuple(_starting_small(entry, choice) for entry in choice.columns)
        )
        for name, choice in choices.items()
    }


def _starting_small(entry: Entry, choice: Choice) -> Entry:
    if "embedding" not in entry.value or entry.name not in (*choice.deep, *choice.fields):
        return entry
    initializer = {"truncated_normal": {"stddev": _FIRST_STDDEV}}
    return dataclasses.replace(entry, value={**entry.value, "initializer": initializer})


def _names(choice: Choice) -> list[str]:
    return [entry.name for entry in choice.columns]


def _with_fields(
    choice: Choice, dimension: int, categories: int, taken: frozenset[str], *, buckets: bool
) -> Choice:
    columns, fields, deep = [], [], list(choice.deep)
    embedded = {
        entry.value["embedding"]: entry.name
        for entry in choice.columns
        if entry.name in choice.deep and "embedding" in entry.value
    }
    for entry in choice.columns:
        if entry.name in embedded.values():
            entry = dataclasses.replace(
                entry,
                value={**entry.value, "dimension": dimension},
                why="all embeddings of the groups deep and fields have one dimension: the fourth "
                f"root of {categories:,} categories, {categories**0.25:.1f}, rounded up to a power "
                f"of two, 4 to {_LARGEST_DIMENSION}",
            )
        columns.append(entry)
    for entry in choice.columns:
        if entry.name in choice.wide and _has_ids(entry):
            name = embedded.get(entry.name)
            if name is None:
                name = free_name(f"{entry.name}_emb", taken)
                value = {"embedding": entry.name, "dimension": dimension}
                why = "only for models of fields"
                if buckets and deep and "bucketized" in entry.value:
                    deep.append(name)
                    why = "a vector for each bucket, in addition to the number itself"
                columns.append(Entry(name, value, why))
            fields.append(name)
    return dataclasses.replace(
        choice, columns=tuple(columns), fields=tuple(fields), deep=tuple(deep)
    )


def _has_ids(entry: Entry) -> bool:
    """Whether a column has ids, of which there can be an embedding."""
    kinds = (COLUMN_KINDS[key] for key in entry.value if key in COLUMN_KINDS)
    return any(kind.categorical or kind.kind == "bucketized" for kind in kinds)
