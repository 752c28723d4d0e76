"""Converts one feature of a Schema to entries of a spec: the rules, with reasons.

    type          FLOAT, INT, BYTES become float32, int64, string; other types are left out
    shape         no dimension, or [1], is one value; [n] of categories is a list
    value_count   one value if min and max are 1, otherwise a list; without shape and value_count: a
                  list
    presence      in every record: required; else the default of its dense TensorRepresentation, or
                  "" and -1, which mean missing, or 0
    domain        words and integers of categories become a vocabulary, or an identity if integers
                  start at 0; a range of numbers becomes minmax; without a domain, strings and ids
                  are hashed

Features that the Schema disables, or that no column can read, are ignored, with the reason. Nothing
is skipped silently: fields that are set but not used are in `Reading.lost`.

Weighted features become weighted columns, and back: a WeightedFeature names a list of values and a
list with one weight for each value. A `weighted` column reads the same. If the spec does not have
two such lists, the weighted feature is reported as lost.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any, Optional

from feature_specs.entry import NAME_PATTERN
from feature_specs.kinds.vocabulary import fits_a_line
from feature_specs.spec import FeatureSpec
from input_pipelines.prepare.analyze import columns, vocabularies
from input_pipelines.prepare.analyze.columns import Choice, Entry
from input_pipelines.prepare.metadata_schema.feature_reading import Reading, one_line

LARGEST_LIST = 50
_LARGEST_IDENTITY = 2_000_000

# Stages of features that a model may read. The names of all other stages say why not.
_USABLE_STAGES = ("UNKNOWN_STAGE", "BETA", "PRODUCTION")

# Domains that describe bytes that no column turns into ids.
_NO_CATEGORIES = (
    "image_domain",
    "audio_domain",
    "video_domain",
    "content_chunk_domain",
    "natural_language_domain",
    "time_domain",
    "time_of_day_domain",
)

# If the number of ids is unknown, there are buckets for about this many.
_UNKNOWN_IDS = 1000


def list_range(reading: Reading) -> None:
    """Adds the range of numbers to `lost`, because a spec does not check it."""
    if reading.domain_kind in ("int_domain", "float_domain"):
        text = f"{reading.domain_kind} {one_line(reading.domain)}"
        if reading.domain.HasField("min") or reading.domain.HasField("max"):
            reading.lost.append(f"{text}: no range is checked")
        elif reading.domain_kind == "float_domain":
            reading.lost.append(text)


def stage(message: Any) -> str:
    """The name of a stage in which no model may read the feature, or an empty string."""
    value = (
        message.DESCRIPTOR.fields_by_name["lifecycle_stage"]
        .enum_type.values_by_number[message.lifecycle_stage]
        .name
    )
    if value not in _USABLE_STAGES:
        return str(value)
    return "DEPRECATED" if message.deprecated else ""


def unusable(reading: Reading) -> str:
    """Why a feature cannot be in a spec at all, or an empty string."""
    if not re.fullmatch(NAME_PATTERN, reading.name):
        return "its name cannot be part of a TensorFlow variable's name; rename it to use it"
    if reading.dtype is None:
        field = reading.message.DESCRIPTOR.fields_by_name["type"]
        name = field.enum_type.values_by_number[reading.message.type].name
        return f"its type is {name}, but a spec has only FLOAT, INT and BYTES"
    if reading.message.WhichOneof("shape_type") == "value_counts":
        return "its values are nested lists; a spec can only read flat lists with row_lengths"
    return ""


def choose(reading: Reading, taken: frozenset[str], *, absent: str = "") -> Choice:
    """The entries of a feature.

    Args:
      reading: the feature. `unusable` must have returned an empty string for it.
      taken: the names of all features.
      absent: the environment that lacks the feature, or an empty string.
    """
    reason = _no_column(reading, absent)
    if not reason and reading.is_category and isinstance(reading.shape, tuple) and reading.shape:
        reading.notes.append(f"{list(reading.shape)} in the Schema; several ids are a list")
        reading.shape = "variable"
    if not reading.is_category or _identity_size(reading) is None:
        list_range(reading)
    feature = _feature(reading)
    if reason:
        return Choice(feature, ignored=True, why=reason)
    return (
        _category(reading, feature, taken)
        if reading.is_category
        else _number(reading, feature, taken)
    )


def _no_column(reading: Reading, absent: str) -> str:
    if stage(reading.message):
        return f"its stage in the Schema is {stage(reading.message)}"
    if absent:
        return f"the environment {absent} lacks it, so it may be the weight of a label"
    if reading.domain_kind == "image_domain":
        return (
            "its domain is image_domain; use decode: {image: {height, width, channels}} to read it"
        )
    if reading.domain_kind in _NO_CATEGORIES:
        return f"its domain is {reading.domain_kind}; convert it to numbers or categories"
    if reading.dtype == "float32" and reading.shape == "variable":
        return (
            "lists of numbers with different lengths need a sequence_numeric or ragged column and "
            "a custom model that reads its group; write such a model, or store the same number of "
            "values in every record"
        )
    return ""


def _feature(reading: Reading) -> Entry:
    value: dict[str, Any] = {"dtype": reading.dtype}
    comments = [*reading.message.annotation.comment, *reading.notes]
    if reading.message.annotation.tag:
        comments.append(f"tags: {', '.join(reading.message.annotation.tag)}")
    if reading.shape == "variable":
        value["shape"] = "variable"
    elif reading.shape:
        value["shape"] = list(reading.shape)
    if reading.shape != "variable":
        if reading.default is not None:
            value["default"] = reading.default
        elif not reading.required:
            missing = -1 if reading.is_category else 0
            fallback = {"string": "", "int64": missing, "float32": 0.0}
            value["default"] = fallback[str(reading.dtype)]
            means = "means missing" if reading.is_category else "is a guess: the Schema has none"
            comments.append(f"not in every record; the default {means}")
    comments += [f"not in the spec: {lost}" for lost in reading.lost]
    return Entry(reading.name, value, "; ".join(comments))


def _number(reading: Reading, feature: Entry, taken: frozenset[str]) -> Choice:
    if reading.range is not None:
        low, high = map(float, reading.range)
        name = columns.free_name(f"{reading.name}_scaled", taken)
        scale = {"minmax": {"min": low, "max": high}}
        column = Entry(
            name,
            {"numeric": reading.name, "normalizer": scale},
            "scales its range in the Schema to 0 to 1",
        )
    else:
        name = columns.free_name(f"{reading.name}_number", taken)
        column = Entry(
            name,
            {"numeric": reading.name},
            "not scaled, because the Schema has no range; add a normalizer",
        )
    return Choice(feature, (column,), (name,), (name,))


def _category(reading: Reading, feature: Entry, taken: frozenset[str]) -> Choice:
    name, words = reading.name, reading.words
    value: dict[str, Any]
    identity = _identity_size(reading)
    if words:
        oov = int(reading.message.distribution_constraints.min_domain_mass < 1)
        size = ids = len(words) + oov
        source: dict[str, Any] = {"list": words}
        unfit = [word for word in words if not fits_a_line(word)]
        if len(words) > LARGEST_LIST and not unfit:
            source = {"file": vocabulary_file(name)}
        value = {"vocabulary": name, **source, **({"oov_buckets": oov} if oov else {})}
        others = "other words share one id" if oov else "other words have no id"
        why = f"the {len(words):,} words of its domain; {others}"
        if len(words) > LARGEST_LIST and unfit:
            why += f"; a list, because a line of a file cannot hold {unfit[0]!r}"
    elif identity is not None:
        size = ids = identity
        value = {"identity": name, "size": size}
        why = f"its domain ends at {size - 1:,}; a larger value is an error"
    elif _few_integers(reading):
        low, high = reading.integers or (0, 0)
        size = ids = high - low + 1
        value = {"vocabulary": name, "list": list(range(low, high + 1))}
        why = f"the integers of its domain, {low:,} to {high:,}; other integers have no id"
    else:
        ids, about = _number_of_ids(reading)
        size = vocabularies.hash_size(ids)
        value = {"hash_bucket": name, "size": size}
        why = f"hashed, {about}; ten buckets for each id"
    deep = columns.deep_column(name, ids=ids, size=size, taken=taken)
    return Choice(feature, (Entry(name, value, why), deep), (name,), (deep.name,))


def vocabulary_file(name: str) -> str:
    return f"{columns.VOCABULARY_FOLDER}/{name}.txt"


def _identity_size(reading: Reading) -> Optional[int]:
    ends = reading.integers
    if ends is None or ends[0] < 0 or ends[1] >= _LARGEST_IDENTITY:
        return None
    return ends[1] + 1


def _few_integers(reading: Reading) -> bool:
    ends = reading.integers
    return ends is not None and ends[1] - ends[0] < LARGEST_LIST


def _number_of_ids(reading: Reading) -> tuple[int, str]:
    unique = reading.message.unique_constraints
    if unique.max > 0:
        return unique.max, f"for the {unique.max:,} values that the Schema allows"
    ends = reading.integers
    if ends is not None:
        return ends[1] - ends[0] + 1, f"for the integers from {ends[0]:,} to {ends[1]:,}"
    why = f"for {_UNKNOWN_IDS:,} values, which is a guess: the Schema does not say how many"
    return _UNKNOWN_IDS, why


def add_columns(schema: Any, readings: dict[str, Reading], choices: dict[str, Choice]) -> list[str]:
    """Adds a column for each weighted feature to `choices`, and returns the lost ones."""
    lost = []
    taken = {*readings, *(column.name for choice in choices.values() for column in choice.columns)}
    for message in schema.weighted_feature:
        base, weight = _only_step(message.feature), _only_step(message.weight_feature)
        reason = _reason(message.name, base, weight, readings, choices, taken)
        if reason:
            lost.append(f"weighted_feature {one_line(message)}: {reason}")
            continue
        taken.add(message.name)
        value = {"weighted": base, "weight": weight}
        column = Entry(message.name, value, "a weighted feature of the Schema")
        choice = choices[base]
        choices[base] = dataclasses.replace(
            choice, columns=(*choice.columns, column), wide=(*choice.wide, column.name)
        )
        choices[weight] = dataclasses.replace(choices[weight], ignored=False, why="")
    return lost


def _only_step(path: Any) -> str:
    """The feature that a path names. A path with several steps matches no feature of a spec."""
    return " / ".join(path.step)


def _reason(
    name: str,
    base: str,
    weight: str,
    readings: dict[str, Reading],
    choices: dict[str, Choice],
    taken: set[str],
) -> str:
    """Why a weighted feature cannot become a column, or an empty string."""
    if not re.fullmatch(NAME_PATTERN, name) or name in taken:
        return "a column cannot have its name"
    for feature in (base, weight):
        if feature not in choices or choices[feature].feature is None:
            return f"{feature!r} is not a feature of the spec"
    if base not in choices[base].wide or readings[base].shape != "variable":
        return f"{base!r} is not a list of categories"
    if readings[weight].dtype != "float32" or readings[weight].shape != "variable":
        return f"{weight!r} is not a list of numbers"
    return ""


def add_messages(schema: Any, spec: FeatureSpec) -> Iterator[str]:
    """Adds the weighted columns of a spec to a Schema, and yields their names."""
    for name, column in spec.columns.items():
        weight = column.weighted_by
        if weight is not None and name not in spec.features and name not in spec.labels:
            message = schema.weighted_feature.add(name=name)
            message.feature.step.append(next(column.features(spec)))
            message.weight_feature.step.append(weight)
            yield name
