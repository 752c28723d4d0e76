"""Checks of a feature spec that span entries: every name refers to something that fits.

Each check is a generator of problems over a spec whose entries are right one by one. Checks do not
stop each other, so a user sees all problems at once; `parser` runs them. Imports no TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator

from feature_specs.errors import Path, Problem, did_you_mean
from feature_specs.kinds.column_kinds import (
    Bucketized,
    Crossed,
    DynamicEmbedding,
    Embedding,
    HashBucket,
    Identity,
    Indicator,
    Numeric,
    Ragged,
    SequenceNumeric,
    Vocabulary,
    Weighted,
)
from feature_specs.spec import FeatureSpec
from feature_specs.vocabulary import VocabularyError, inside, not_inside, read_words

Problems = Iterator[Problem]


def check_columns(spec: FeatureSpec) -> Problems:
    """Every source of a column exists and has a fitting type.

    What is wrong with a column that is made from itself is for `check_cycles` to say, once.
    """
    for name, column in spec.columns.items():
        path: Path = ("columns", name)
        if isinstance(column, Crossed):
            for i, key in enumerate(column.sources):
                if key != name:
                    yield from _check_cross_key(spec, key, (*path, "crossed", i))
        elif _is_from_itself(spec, name):
            continue
        elif isinstance(column, (Embedding, Indicator)):
            yield from _check_category(spec, column.source, (*path, column.kind), column.kind)
        elif isinstance(column, Weighted):
            yield from _check_weighted(spec, column, path)
        elif isinstance(column, Bucketized):
            yield from _check_bucketized(spec, column, (*path, "bucketized"))
        elif not isinstance(column, Ragged):  # See `ragged_validation`.
            yield from _check_feature(spec, column, (*path, column.kind))


def unknown(path: Path, name: str, what: str, known: Iterator[str] | list[str]) -> Problem:
    return Problem(path, f"got {name!r}, expected {what}{did_you_mean(name, known)}")


def _list_form(spec: FeatureSpec) -> str:
    """How the features of a spec say that they are lists."""
    return f"{'feature_list: true or ' if spec.sequence_examples else ''}shape: variable"


def _check_feature(
    spec: FeatureSpec,
    column: Numeric | SequenceNumeric | Identity | Vocabulary | HashBucket | DynamicEmbedding,
    path: Path,
) -> Problems:
    feature = spec.features.get(column.source)
    if feature is None:
        yield unknown(path, column.source, "the name of a feature", list(spec.features))
        return
    if isinstance(column, SequenceNumeric):
        if feature.dtype == "string" or not feature.variable:
            yield Problem(
                path,
                f"feature {column.source!r} is {feature.dtype} with {feature.form}, "
                f"expected numbers with {_list_form(spec)}, one a step",
            )
        return
    if isinstance(column, Numeric):
        if not feature.is_number:
            yield Problem(path, f"feature {column.source!r} is a string, expected a number")
        if feature.variable:
            by_step = "; for one number a step make it sequence_numeric"
            hint = by_step if feature.feature_list else ""
            yield Problem(
                path,
                f"feature {column.source!r} is of variable length, expected a fixed shape{hint}",
            )
        return
    if feature.decode is not None:
        yield Problem(
            path,
            f"feature {column.source!r} is decoded to numbers, which numeric and bucketized "
            "columns read; remove decode if its bytes are meant themselves",
        )
        return
    wanted = ("int64",) if isinstance(column, Identity) else ("string", "int64")
    if feature.dtype not in wanted:
        hint = "" if feature.dtype == "string" else "; put a bucketized column over it"
        if isinstance(column, DynamicEmbedding):
            hint = "; make an embedding of a bucketized column over it"
        yield Problem(
            path,
            f"feature {column.source!r} is {feature.dtype}, expected {' or '.join(wanted)}{hint}",
        )
    elif not (feature.single or feature.variable):
        yield Problem(
            path,
            f"feature {column.source!r} has the shape {list(feature.shape)}, expected one value "
            "or a list; declare it with shape: variable",
        )
    if getattr(column, "sequence", False) and not feature.variable:
        yield Problem(
            (*path[:-1], "sequence"),
            f"feature {column.source!r} has one value a record, expected a list of steps; declare "
            f"it with {_list_form(spec)}, or remove sequence",
        )
    if isinstance(column, Vocabulary) and column.words is not None:
        word_type = "int64" if isinstance(column.words[0], int) else "string"
        if feature.dtype != word_type and feature.dtype != "float32":
            yield Problem(
                (*path[:-1], "list"),
                f"the words are {word_type} but feature {column.source!r} is {feature.dtype}",
            )


def _check_bucketized(spec: FeatureSpec, column: Bucketized, path: Path) -> Problems:
    source = spec.columns.get(column.source)
    name = source.source if isinstance(source, Numeric) else column.source
    feature = spec.features.get(name)
    if source is not None and not isinstance(source, Numeric) and feature is None:
        yield Problem(path, f"column {name!r} is {source.kind}, expected a numeric one")
    elif feature is None:
        known = [*spec.columns, *spec.features]
        if source is None:  # A numeric column over a missing feature is reported there.
            yield unknown(path, name, "a numeric column or feature", known)
    elif not feature.is_number or feature.variable or len(feature.number_shape) > 1:
        yield Problem(path, f"feature {name!r} is no number, expected one, or [n] numbers")


def _check_cross_key(spec: FeatureSpec, key: str, path: Path) -> Problems:
    column, feature = spec.columns.get(key), spec.features.get(key)
    if isinstance(column, HashBucket):
        rename = "; rename the column, so that the name means the feature"
        yield Problem(
            path,
            f"column {key!r} is a hash_bucket, expected the feature {column.source!r} itself: "
            f"hashing twice only adds collisions{rename if key == column.source else ''}",
        )
    elif isinstance(column, Crossed):
        yield Problem(path, f"column {key!r} is a cross itself; list its keys instead")
    elif isinstance(column, Weighted):
        yield Problem(path, f"column {key!r} is weighted; cross {column.source!r} itself")
    elif getattr(column, "sequence", False):
        yield Problem(
            path, f"column {key!r} is a sequence, which has no cross; cross a column without it"
        )
    elif column is not None and not column.categorical:
        yield Problem(
            path,
            f"column {key!r} is {column.kind}, expected a feature or a categorical column; "
            "for a number cross a bucketized column",
        )
    elif column is None and feature is None:
        known = [*spec.columns, *spec.features]
        yield unknown(path, key, "a feature or a categorical column", known)
    elif column is None and feature is not None:
        if feature.dtype == "float32":
            yield Problem(
                path,
                f"feature {key!r} is float32, which cannot be crossed; "
                "cross a bucketized column over it",
            )
        elif feature.decode is not None:
            yield Problem(
                path,
                f"feature {key!r} is decoded to numbers, which cannot be crossed; cross a "
                "bucketized column over it",
            )
        elif not (feature.single or feature.variable):
            yield Problem(path, f"feature {key!r} has a fixed length; declare shape: variable")


def _check_weighted(spec: FeatureSpec, column: Weighted, path: Path) -> Problems:
    yield from _check_category(spec, column.source, (*path, "weighted"), "weighted")
    source = spec.columns.get(column.source)
    if isinstance(source, (Weighted, Crossed, Bucketized)):
        yield Problem(
            (*path, "weighted"),
            f"column {column.source!r} is {source.kind}, expected an identity, vocabulary or "
            "hash_bucket column",
        )
    elif source is not None and getattr(source, "sequence", False):
        yield Problem(
            (*path, "weighted"), f"column {column.source!r} is a sequence, which has no weights"
        )
    elif source is not None and source.categorical:
        feature = spec.features.get(next(spec.features_of(column.source)))
        if feature is not None and not feature.variable:
            yield Problem(
                (*path, "weighted"),
                f"column {column.source!r} is of one value a record, expected a list; declare its "
                "feature with shape: variable",
            )
    weight = spec.features.get(column.weight)
    if weight is None:
        yield unknown((*path, "weight"), column.weight, "a feature", list(spec.features))
    elif weight.dtype != "float32" or not weight.variable:
        yield Problem(
            (*path, "weight"),
            f"feature {column.weight!r} is {weight.dtype} with {weight.form}, expected "
            f"float32 with {_list_form(spec)}, one weight an id",
        )


def _check_category(spec: FeatureSpec, name: str, path: Path, kind: str) -> Problems:
    column = spec.columns.get(name)
    if column is None:
        hint = did_you_mean(name, [n for n, c in spec.columns.items() if c.categorical])
        if name in spec.features:
            hint = f"; {name!r} is a feature: make a hash_bucket or vocabulary column of it first"
        yield Problem(path, f"got {name!r}, expected the name of a categorical column{hint}")
    elif not column.categorical:
        yield Problem(
            path, f"column {name!r} is {column.kind}, expected a categorical column for {kind}"
        )


def _parents(spec: FeatureSpec, name: str) -> list[str]:
    """The columns that a column names as what it is made from."""
    column = spec.columns[name]
    sources = column.sources if isinstance(column, Crossed) else (column.source,)
    of_features = (Numeric, SequenceNumeric, Ragged, Identity, Vocabulary, HashBucket)
    if isinstance(column, (*of_features, DynamicEmbedding)):
        sources = ()  # Made from features alone.
    elif isinstance(column, Bucketized) and column.source in spec.features:
        sources = ()
    return [source for source in sources if source in spec.columns]


def _is_from_itself(spec: FeatureSpec, name: str) -> bool:
    return name in _parents(spec, name)


def check_cycles(spec: FeatureSpec) -> Problems:
    """No column is made from itself."""

    seen: set[str] = set()
    reported: set[str] = set()
    for start in spec.columns:
        trail = [start]
        stack = [iter(_parents(spec, start))]
        while stack:
            for name in stack[-1]:
                if name in trail:
                    cycle = [*trail[trail.index(name) :], name]
                    if not reported.intersection(cycle):
                        reported.update(cycle)
                        yield Problem(("columns", name), _cycle_text(spec, cycle))
                elif name not in seen:
                    seen.add(name)
                    trail.append(name)
                    stack.append(iter(_parents(spec, name)))
                    break
            else:
                stack.pop()
                trail.pop()


def _cycle_text(spec: FeatureSpec, cycle: list[str]) -> str:
    if len(cycle) > 2:
        return f"columns form a cycle: {' -> '.join(cycle)}"
    if cycle[0] in spec.features:
        return (
            f"the column is made from itself; rename it, so that {cycle[0]!r} means the feature"
        )
    return "the column is made from itself; name a feature or another column"


def check_drift(spec: FeatureSpec) -> Problems:
    """Thresholds are of features and labels that there are, and of a measure that fits them."""
    for section, entries, others in (
        ("features", spec.features, spec.labels),
        ("labels", spec.labels, spec.features),
    ):
        for name, measures in getattr(spec.drift, section).items():
            path: Path = ("drift", section, name)
            if name not in entries:
                what = section[:-1]
                if name in others:
                    other = "labels" if section == "features" else "features"
                    yield Problem(path, f"{name!r} is no {what}; write it under drift.{other}")
                else:
                    yield unknown(path, name, f"the name of a {what}", list(entries))
                continue
            dtype = entries[name].dtype
            decode = spec.features[name].decode if section == "features" else None
            if decode is not None and (measures.l_infinity or measures.jensen_shannon):
                yield Problem(
                    path,
                    f"{name!r} is decoded from bytes, of which drift measures only how often they "
                    "are missing; give missing alone",
                )
                continue
            classes = section == "labels" and spec.label_classes(name) is not None
            if measures.l_infinity is not None and dtype == "float32" and not classes:
                yield Problem(
                    (*path, "l_infinity"),
                    f"{name!r} is float32, and l_infinity is of categories; give jensen_shannon",
                )
            if measures.jensen_shannon is not None and dtype == "string":
                yield Problem(
                    (*path, "jensen_shannon"),
                    f"{name!r} is a string, and jensen_shannon is of numbers; give l_infinity",
                )


def check_filter(spec: FeatureSpec) -> Problems:
    """Filters are of features of one value, which their conditions fit."""
    for i, entry in enumerate(spec.filter):
        path: Path = ("filter", i)
        feature = spec.features.get(entry.feature)
        if feature is None:
            known = list(spec.features)
            yield unknown((*path, "feature"), entry.feature, "the name of a feature", known)
        elif not feature.single:
            yield Problem(
                (*path, "feature"),
                f"feature {entry.feature!r} has {feature.form}, expected one of one value a row",
            )
        elif feature.decode is not None:
            yield Problem(
                (*path, "feature"),
                f"feature {entry.feature!r} is of encoded bytes, which no condition is about",
            )
        else:
            for key, message in entry.misfits(feature.dtype):
                yield Problem((*path, key), message)


def check_vocabulary_file(spec: FeatureSpec, name: str, column: Vocabulary) -> int | Problem:
    """The number of words that a vocabulary column reads from its file, or what is wrong."""
    path: Path = ("columns", name, "file")
    assert column.file is not None
    found = inside(spec.directory, column.file)
    if found is None:
        return Problem(path, not_inside(spec.directory, column.file))
    feature = spec.features.get(column.source)
    try:
        words = read_words(found, integers=feature is not None and feature.dtype == "int64")
    except VocabularyError as error:
        return Problem(path, str(error))
    if column.size is not None and column.size > len(words):
        return Problem(
            ("columns", name, "size"),
            f"got {column.size}, but {column.file!r} has {len(words)} words; "
            "lower size or leave it out",
        )
    used = column.size or len(words)
    if column.default_id >= used:
        return Problem(
            ("columns", name, "default_id"),
            f"got {column.default_id}, expected an id below the number of words, {used}",
        )
    return used
