"""Checks of a feature spec that span entries: every name refers to something that fits.

Each check is a generator of problems over a spec whose entries are right one by one. Checks do not
stop each other, so a user sees all problems at once; `parser` runs them. Imports no TensorFlow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from feature_specs.column_kinds import (
    Bucketized,
    Crossed,
    Embedding,
    HashBucket,
    Identity,
    Indicator,
    Numeric,
    Vocabulary,
    Weighted,
)
from feature_specs.errors import Path, Problem, did_you_mean
from feature_specs.naming import canned_name
from feature_specs.schema import Binary, FeatureSpec, MultiClass, Regression
from feature_specs.vocabulary import VocabularyError, inside, read_words

Problems = Iterator[Problem]


def check_columns(spec: FeatureSpec) -> Problems:
    """Every source of a column exists and has a fitting type."""
    for name, column in spec.columns.items():
        path: Path = ("columns", name)
        if isinstance(column, Crossed):
            for i, key in enumerate(column.sources):
                yield from _check_cross_key(spec, key, (*path, "crossed", i))
        elif isinstance(column, (Embedding, Indicator)):
            yield from _check_category(spec, column.source, (*path, column.kind), column.kind)
        elif isinstance(column, Weighted):
            yield from _check_weighted(spec, column, path)
        elif isinstance(column, Bucketized):
            yield from _check_bucketized(spec, column, (*path, "bucketized"))
        else:
            yield from _check_feature(spec, column, (*path, column.kind))


def _unknown(path: Path, name: str, what: str, known: Iterator[str] | list[str]) -> Problem:
    return Problem(path, f"got {name!r}, expected {what}{did_you_mean(name, known)}")


def _check_feature(
    spec: FeatureSpec, column: Numeric | Identity | Vocabulary | HashBucket, path: Path
) -> Problems:
    feature = spec.features.get(column.source)
    if feature is None:
        yield _unknown(path, column.source, "the name of a feature", list(spec.features))
        return
    if isinstance(column, Numeric):
        if feature.dtype == "string":
            yield Problem(path, f"feature {column.source!r} is a string, expected a number")
        if feature.variable:
            yield Problem(
                path, f"feature {column.source!r} is of variable length, expected a fixed shape"
            )
        return
    wanted = ("int64",) if isinstance(column, Identity) else ("string", "int64")
    if feature.dtype not in wanted:
        hint = "" if feature.dtype == "string" else "; put a bucketized column over it"
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
            yield _unknown(path, name, "a numeric column or feature", known)
    elif feature.dtype == "string" or feature.variable or len(feature.shape) > 1:
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
    elif column is not None and not column.categorical:
        yield Problem(
            path,
            f"column {key!r} is {column.kind}, expected a feature or a categorical column; "
            "for a number cross a bucketized column",
        )
    elif column is None and feature is None:
        known = [*spec.columns, *spec.features]
        yield _unknown(path, key, "a feature or a categorical column", known)
    elif column is None and feature is not None:
        if feature.dtype == "float32":
            yield Problem(
                path,
                f"feature {key!r} is float32, which cannot be crossed; "
                "cross a bucketized column over it",
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
        yield _unknown((*path, "weight"), column.weight, "a feature", list(spec.features))
    elif weight.dtype != "float32" or not weight.variable:
        yield Problem(
            (*path, "weight"),
            f"feature {column.weight!r} is {weight.dtype} with the shape {weight.shape}, expected "
            "float32 with shape: variable, one weight an id",
        )


def check_shared_tables(spec: FeatureSpec) -> Problems:
    """Embeddings that share a table agree on all that makes it."""
    tables: dict[str, dict[str, Embedding]] = {}
    for name, column in spec.columns.items():
        if isinstance(column, Embedding) and column.shared is not None:
            tables.setdefault(column.shared, {})[name] = column
    for table, members in tables.items():
        (first_name, first), *others = members.items()
        path: Path = ("columns", first_name, "shared")
        if not others:
            yield Problem(path, f"no other embedding shares {table!r}; remove it or name another")
        if table == "global_step":
            yield Problem(path, "got 'global_step', which is a variable of TensorFlow's own")
        size, fields = spec.size_of(first.source), first.model_dump(exclude={"source"})
        for name, column in others:
            shares = f"shares the table {table!r} with {first_name!r}, but"
            values = column.model_dump(exclude={"source"})
            differ = [field for field in fields if fields[field] != values[field]]
            if differ:
                yield Problem(
                    ("columns", name), f"{shares} differs in {', '.join(differ)}; make them equal"
                )
            if spec.size_of(column.source) != size:
                yield Problem(
                    ("columns", name),
                    f"{shares} has {spec.size_of(column.source)} ids and that one {size}; make "
                    "them equal",
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


def check_cycles(spec: FeatureSpec) -> Problems:
    """No column is made from itself."""

    def parents(name: str) -> list[str]:
        column = spec.columns[name]
        sources = column.sources if isinstance(column, Crossed) else (column.source,)
        if isinstance(column, (Numeric, Identity, Vocabulary, HashBucket)):
            sources = ()  # Made from features alone.
        elif isinstance(column, Bucketized) and column.source in spec.features:
            sources = ()
        return [source for source in sources if source in spec.columns]

    seen: set[str] = set()
    reported: set[str] = set()
    for start in spec.columns:
        trail = [start]
        stack = [iter(parents(start))]
        while stack:
            for name in stack[-1]:
                if name in trail:
                    cycle = [*trail[trail.index(name) :], name]
                    if not reported.intersection(cycle):
                        reported.update(cycle)
                        yield Problem(
                            ("columns", name), f"columns form a cycle: {' -> '.join(cycle)}"
                        )
                elif name not in seen:
                    seen.add(name)
                    trail.append(name)
                    stack.append(iter(parents(name)))
                    break
            else:
                stack.pop()
                trail.pop()


def check_groups(spec: FeatureSpec) -> Problems:
    """Groups name columns, each once; what no group uses is said, not dropped."""
    for group, names in spec.groups.items():
        path: Path = ("groups", group)
        if not names:
            yield Problem(path, "the group is empty; list its columns or remove it")
        for i, name in enumerate(names):
            if name in names[:i]:
                yield Problem((*path, i), f"column {name!r} is in the group twice")
            elif name not in spec.columns:
                hint = did_you_mean(name, spec.columns)
                if name in spec.features:
                    hint = f"; {name!r} is a feature: a group lists columns"
                yield Problem((*path, i), f"got {name!r}, expected the name of a column{hint}")


def check_use(spec: FeatureSpec) -> Problems:
    """Every feature and column ends in some group. Needs a spec whose names are all right."""
    used = {part for name in spec.used_columns() for part in _chain(spec, name)}
    for name in spec.columns:
        if name not in used:
            yield Problem(
                ("columns", name),
                "no group uses this column; add it to a group or remove it",
            )
    features = set(spec.used_features())
    for label_name, label in spec.labels.items():
        if label.true_probability in features:
            yield Problem(
                ("labels", label_name, "true_probability"),
                f"feature {label.true_probability!r} is in a group and would leak into the model",
            )
    for label in spec.labels.values():
        features.update(n for n in (label.weight, label.true_probability) if n)
    for name in spec.features:
        if name not in features and name not in spec.ignored:
            yield Problem(
                ("features", name),
                "no group uses this feature; add a column of it to a group, "
                "or list it under `ignored`",
            )
    for i, name in enumerate(spec.ignored):
        if name in spec.ignored[:i]:
            yield Problem(("ignored", i), f"feature {name!r} is there twice")
        elif name not in spec.features:
            yield _unknown(("ignored", i), name, "the name of a feature", list(spec.features))
        elif name in features:
            yield Problem(("ignored", i), f"feature {name!r} is used; remove it from `ignored`")


def _chain(spec: FeatureSpec, name: str) -> Iterator[str]:
    """A column and the columns that it is made from."""
    yield name
    column = spec.columns[name]
    if isinstance(column, Bucketized):
        if isinstance(spec.columns.get(column.source), Numeric):
            yield column.source
        return
    sources = column.sources if isinstance(column, Crossed) else (column.source,)
    if isinstance(column, (Crossed, Embedding, Indicator, Weighted)):
        for source in sources:
            if source in spec.columns:
                yield from _chain(spec, source)


def check_variable_names(spec: FeatureSpec) -> Problems:
    """No two columns of one group would be the same variable."""
    for group, names in spec.groups.items():
        canned = [canned_name(spec, name) for name in names]
        for variable, count in Counter(canned).items():
            if count > 1:
                same = [name for name, c in zip(names, canned) if c == variable]
                yield Problem(
                    ("groups", group),
                    f"columns {', '.join(same)} are all {variable!r} to TensorFlow, which names a "
                    "column after its features, so their variables would collide; keep one",
                )


def check_labels(spec: FeatureSpec) -> Problems:
    """Labels are no features, and what weighs them is a number."""
    learned = {spec.label_of(name) for name in spec.objectives}
    for name, label in spec.labels.items():
        path: Path = ("labels", name)
        if name in spec.features:
            yield Problem(path, "the label is also a feature and would leak into the model")
        if name not in learned:
            yield Problem(path, "no objective learns this label; add an objective or remove it")
        if label.weight is not None:
            weight = spec.features.get(label.weight) or spec.labels.get(label.weight)
            if weight is None:
                known = [*spec.features, *spec.labels]
                yield _unknown((*path, "weight"), label.weight, "a feature or a label", known)
            elif label.weight == name:
                yield Problem((*path, "weight"), "a label cannot weigh itself")
            elif weight.dtype == "string" or not getattr(weight, "single", True):
                yield Problem((*path, "weight"), f"{label.weight!r} is no single number")
        if label.true_probability is not None:
            truth = spec.features.get(label.true_probability)
            if truth is None or truth.dtype != "float32" or not truth.single:
                yield _unknown(
                    (*path, "true_probability"),
                    label.true_probability,
                    "a float32 feature of one value",
                    [n for n, f in spec.features.items() if f.dtype == "float32" and f.single],
                )


def check_objectives(spec: FeatureSpec) -> Problems:
    """Each objective learns a label of its own that fits its head."""
    owner: dict[str, str] = {}
    for name, objective in spec.objectives.items():
        path: Path = ("objectives", name)
        label_name = spec.label_of(name)
        label = spec.labels.get(label_name)
        if label is None:
            where = path if objective.label is None else (*path, "label")
            yield _unknown(where, label_name, "the name of a label", list(spec.labels))
            continue
        if owner.setdefault(label_name, name) != name:
            yield Problem(path, f"objective {owner[label_name]!r} learns {label_name!r} already")
        words = len(label.vocabulary) if label.vocabulary is not None else None
        if isinstance(objective, Regression):
            if label.dtype == "string":
                yield Problem(path, f"label {label_name!r} is a string, expected a number")
        elif isinstance(objective, MultiClass) and label.dtype == "float32":
            yield Problem(path, f"label {label_name!r} is float32, expected int64 or string")
        elif words is not None and words != objective.classes:
            yield Problem(
                path,
                f"the head has {objective.classes} classes and the vocabulary of label "
                f"{label_name!r} {words} words; make them equal",
            )
        if label.true_probability is not None and not isinstance(objective, Binary):
            yield Problem(
                ("labels", label_name, "true_probability"), "is for the label of a binary head"
            )


def check_vocabulary_file(spec: FeatureSpec, name: str, column: Vocabulary) -> int | Problem:
    """The number of words that a vocabulary column reads from its file, or what is wrong."""
    path: Path = ("columns", name, "file")
    assert column.file is not None
    found = inside(spec.directory, column.file)
    if found is None:
        return Problem(
            path,
            f"got {column.file!r}, expected a path below the folder of the spec, "
            f"{str(spec.directory)!r}",
        )
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
