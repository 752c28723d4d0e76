"""parser and validation: the exact messages of broken specs, and the result for a good spec.

test_vocabulary tests the messages about vocabulary files, and test_yaml_reader those about YAML.
"""

from __future__ import annotations

import copy
import dataclasses
import pathlib
import re

import pytest

import feature_specs
from feature_specs import SpecError, kinds
from feature_specs.validation import validation
from tests import conftest

pytestmark = pytest.mark.no_tensorflow

# A good spec with one section per line: `features` is on line 1, `columns` on line 2, and so on.
SECTIONS = {
    "features": "f: {dtype: float32}, i: {dtype: int64}, s: {dtype: string}, "
    "m: {dtype: string, shape: variable}, v: {dtype: float32, shape: [3]}",
    "columns": "f: {numeric: f}, i: {identity: i, size: 5}, s: {hash_bucket: s, size: 9}, "
    "m: {hash_bucket: m, size: 9}, v: {numeric: v}",
    "groups": "deep: [f, i, s, m, v]",
    "labels": "y: {dtype: int64}",
    "objectives": "y: {head: binary}",
}

# Changes of the good spec (`section: text` replaces a section, `section + text` adds an entry,
# `section -` removes the section), followed by the indented messages. A message may continue on the
# next line with a deeper indent. `<kinds>` stands for all column kinds.
BROKEN = """
# --- Sections
featurs: {}
    6: featurs: unknown section. Did you mean 'features'?
extra: 1
    6: extra: unknown section. Use one of: features, embedding_tables, columns, groups, labels,
       objectives, raw, ignored, drift, filter, retraining, monitoring, tables.
features -
    1: the top level: the section 'features' is missing. Add it.
columns -
objectives -
    1: the top level: the section 'columns' is missing. Add it.
    1: the top level: the section 'objectives' is missing. Add it.
features: [f]
    1: features: got ['f'], expected names with entries
groups: {}
    3: groups: got {}, expected names with entries
columns:
    2: columns: got None, expected names with entries
ignored: f
    6: ignored: got 'f', expected a list of features
ignored: [1]
    6: ignored: got [1], expected a list of features
raw: f
    6: raw: got 'f', expected a list of features
raw: [f, f]
    6: raw[1]: feature 'f' is listed twice. Remove one of them.
raw: [g, y]
    6: raw[0]: got 'g', expected the name of a feature. Use one of: f, i, s, m, v.
    6: raw[1]: 'y' is a label, which requests do not have. List a feature, or remove it.
features + g: {dtype: string}
raw: [g]
ignored: [g]
    7: ignored[0]: feature 'g' is used by `raw`. To ignore it, remove these uses, and remove the
       columns from their groups. To use it, remove it from `ignored`.

# --- Names
features + a b: {dtype: string}
    1: features.a b: a name must start with a letter or digit, and may then contain letters,
       digits, _, - and .
columns + _a: {numeric: f}
    2: columns._a: a name must start with a letter or digit, and may then contain letters, digits,
       _, - and .
groups: {é: [f]}
    3: groups.é: a name must start with a letter or digit, and may then contain letters, digits, _,
       - and .
labels + -y: {dtype: int64}
    4: labels.-y: a name must start with a letter or digit, and may then contain letters, digits,
       _, - and .
objectives + y/z: {head: binary}
    5: objectives.y/z: a name must start with a letter or digit, and may then contain letters,
       digits, _, - and .

# --- Features
features + c: string
    1: features.c: got 'string', expected a mapping of dtype, shape, default, required,
       feature_list, row_lengths, decode, private
features + c: {dtype: strin}
    1: features.c.dtype: got 'strin', expected 'float32', 'int64' or 'string'. Did you mean
       'string'?
features + c: {dtype: bool}
    1: features.c.dtype: got 'bool', expected 'float32', 'int64' or 'string'
features + c: {dtyp: string}
    1: features.c.dtype: is missing
    1: features.c.dtyp: unknown key. Did you mean 'dtype'?
features + c: {dtype: string, shape: [0]}
    1: features.c.shape: got [0], expected [] for one value, [n] or [n, m] for a fixed number, or
       variable
features + c: {dtype: string, shape: variabel}
    1: features.c.shape: got 'variabel', expected [] for one value, [n] or [n, m] for a fixed
       number, or variable
features + c: {dtype: string, default: a, required: true}
    1: features.c: required: true cannot be combined with a default or with shape: variable (an
       absent list is read as an empty list). Remove one of the two.
features + c: {dtype: string, default: 1}
    1: features.c: the default must be of dtype string, got 1. Change default or dtype.
features + c: {dtype: int64, default: 1.5}
    1: features.c: the default must be of dtype int64, got 1.5. Change default or dtype.
features + c: {dtype: float32, default: no}
    1: features.c: the default must be of dtype float32, got 'no'. Change default or dtype.
features + c: {dtype: float32, default: .nan}
    1: features.c: the default must be a finite float32, got nan
features + c: {dtype: float32, default: 1e999}
    1: features.c: the default must be a finite float32, got inf
features + c: {dtype: string, shape: variable, default: a}
    1: features.c: a feature of shape: variable cannot have a default, because an absent list is
       read as an empty list. Remove default.

# --- Columns, one by one
columns + c: {numerc: f}
    2: columns.c: got {'numerc': 'f'}, expected one column kind, as in {numeric: x}. Did you mean
       'numeric'?
columns + c: f
    2: columns.c: got 'f', expected one column kind, as in {numeric: x}. Use one of: <kinds>.
columns + c: {numeric: f, identity: i}
    2: columns.c: got the kinds numeric and identity, expected one column kind, as in {numeric: x}
columns + c: {numeric: [f]}
    2: columns.c.numeric: got ['f'], expected a valid string
columns + c: {numeric: f, normalizer: log}
    2: columns.c.normalizer: got 'log', expected log1p, {zscore: {mean, stddev}},
       {minmax: {min, max}}, {clip: {min, max}}, or a list of them
columns + c: {numeric: f, normalizer: {zscore: {mean: 1}}}
    2: columns.c.normalizer.zscore.stddev: is missing
columns + c: {numeric: f, normalizer: {zscore: {mean: 1, stddev: 0}}}
    2: columns.c.normalizer.zscore.stddev: got 0, expected greater than 0
columns + c: {numeric: f, normalizer: {clip: {min: 1, max: 0}}}
    2: columns.c.normalizer.clip: min must be less than max, got min 1.0 and max 0.0
columns + c: {bucketized: f, boundaries: [1, 1]}
    2: columns.c.boundaries: boundaries must be strictly increasing, got 1.0 at [0] and 1.0 at [1].
       Remove one of the two.
columns + c: {bucketized: f, boundaries: [0, 30, 20, 10]}
    2: columns.c.boundaries: boundaries must be strictly increasing, got 30.0 at [1] and 20.0 at
       [2]. Sort them.
columns + c: {bucketized: f, boundaries: [a]}
    2: columns.c.boundaries[0]: got 'a', expected a valid number
columns + c: {bucketized: f, boundaries: [0, .inf]}
    2: columns.c.boundaries[1]: got inf, expected a finite number
columns + c: {bucketized: f}
    2: columns.c.boundaries: is missing
columns + c: {identity: i, size: 0}
    2: columns.c.size: got 0, expected greater than or equal to 1
columns + c: {identity: i, size: "3"}
    2: columns.c.size: got '3', expected a valid integer
columns + c: {identity: i, size: 3, default_id: 3}
    2: columns.c: default_id must be less than size, 3, got 3
columns + c: {hash_bucket: s, size: 1}
    2: columns.c.size: got 1, expected greater than or equal to 2
columns + c: {hash_bucket: s, sise: 9}
    2: columns.c.size: is missing
    2: columns.c.sise: unknown key. Did you mean 'size'?
columns + c: {embedding: s, dimension: 2, combiner: men}
    2: columns.c.combiner: got 'men', expected 'mean', 'sum' or 'sqrtn'. Did you mean 'mean'?
columns + c: {embedding: s, dimension: 0, initializer: {normal: {stddev: 0}}}
    2: columns.c.dimension: got 0, expected greater than or equal to 1
    2: columns.c.initializer.normal.stddev: got 0, expected greater than 0

# --- Columns and what they are made from
columns + c: {numeric: q}
    2: columns.c.numeric: got 'q', expected the name of a feature. Use one of: f, i, s, m, v.
columns + c: {numeric: ff}
    2: columns.c.numeric: got 'ff', expected the name of a feature. Did you mean 'f'?
columns + c: {numeric: s}
    2: columns.c.numeric: feature 's' is a string, expected a number
columns + c: {numeric: m}
    2: columns.c.numeric: feature 'm' is a string, expected a number
    2: columns.c.numeric: feature 'm' has a variable length, expected a fixed shape
columns + c: {identity: s, size: 3}
    2: columns.c.identity: feature 's' is string, expected int64
columns + c: {hash_bucket: f, size: 3}
    2: columns.c.hash_bucket: feature 'f' is float32, expected string or int64. Use a bucketized
       column instead.
features + g: {dtype: int64, shape: [2]}
columns + c: {hash_bucket: g, size: 3}
    2: columns.c.hash_bucket: feature 'g' has the shape [2], expected one value or a list. Declare
       it with shape: variable.
columns + c: {bucketized: v, boundaries: [1]}
    2: columns.c: no group uses this column. Add it to a group or remove it.
columns + c: {bucketized: q, boundaries: [1]}
    2: columns.c.bucketized: got 'q', expected a numeric column or feature. Use one of: f, i, s, m, v, c.
columns + c: {bucketized: e, boundaries: [1]}, e: {indicator: s}
    2: columns.c.bucketized: column 'e' is indicator, expected a numeric column
columns + c: {embedding: q, dimension: 2}
    2: columns.c.embedding: got 'q', expected the name of a categorical column. Use one of: i, s, m.
columns + c: {embedding: f, dimension: 2}
    2: columns.c.embedding: column 'f' is numeric, expected a categorical column for embedding
columns + c: {embedding: e, dimension: 2}, e: {embedding: s, dimension: 2}
    2: columns.c.embedding: column 'e' is embedding, expected a categorical column for embedding
columns + e: {growing: s, rows: 0}
    2: columns.e.rows: got 0, expected greater than or equal to 1
columns + e: {growing: f, rows: 2}
    2: columns.e.growing: feature 'f' is float32, expected string or int64. Use a bucketized column
       instead.
columns + e: {growing: si, rows: 2}
    2: columns.e.growing: got 'si', expected the name of a feature. Did you mean 's'?
columns + e: {growing: s, rows: 2, evict: newest}
    2: columns.e.evict: got 'newest', expected 'oldest' or 'rarest'
columns + e: {growing: s, rows: 2, min_count: 0}
    2: columns.e.min_count: got 0, expected greater than or equal to 1
columns + e: {dynamic_embedding: s, dimension: 2}
    2: columns.e: dynamic_embedding is no longer a kind. Write a column {growing: s, rows: 1000000}
       and an embedding of it.
features + g: {dtype: string}
columns + c: {indicator: g}
    2: columns.c.indicator: got 'g', expected the name of a categorical column. 'g' is a feature.
       Make a hash_bucket or vocabulary column of it first.
columns + c: {crossed: [i, q], size: 9}
    2: columns.c.crossed[1]: got 'q', expected a feature or a categorical column. Use one of: f, i, s, m,
       v, c.
columns + c: {crossed: [f, i], size: 9}
    2: columns.c.crossed[0]: column 'f' is numeric, expected a feature or a categorical column. To
       cross a number, cross a bucketized column.
features + g: {dtype: float32}
columns + c: {crossed: [g, i], size: 9}
    2: columns.c.crossed[0]: feature 'g' is float32, which cannot be crossed. Cross a bucketized
       column of it instead.
columns + c: {crossed: [i, s], size: 9}
    2: columns.c.crossed[1]: column 's' is a hash_bucket, expected the feature 's' itself: hashing
       twice only adds collisions. Rename the column, so that its name means the feature.
columns + c: {crossed: [i, h], size: 9}, h: {hash_bucket: s, size: 4}
    2: columns.c.crossed[1]: column 'h' is a hash_bucket, expected the feature 's' itself: hashing
       twice only adds collisions.
columns + c: {crossed: [x, i], size: 9}, x: {crossed: [b, i], size: 9},
          b: {bucketized: f, boundaries: [1]}
    2: columns.c.crossed[0]: column 'x' is a cross itself. List its keys instead.

# --- Cycles, each reported once, together with the problems of every link
columns + c: {indicator: c}
    2: columns.c: the column is made from itself. Name a feature or another column.
columns + c: {bucketized: c, boundaries: [1]}
    2: columns.c: the column is made from itself. Name a feature or another column.
columns + c: {weighted: c, weight: w}
    2: columns.c: the column is made from itself. Name a feature or another column.
columns + c: {crossed: [c, q], size: 9}
    2: columns.c.crossed[1]: got 'q', expected a feature or a categorical column. Use one of: f, i, s, m,
       v, c.
    2: columns.c: the column is made from itself. Name a feature or another column.
features + g: {dtype: string}
columns + g: {crossed: [i, g], size: 9}
    2: columns.g: the column is made from itself. Rename it, so that 'g' means the feature.
columns + c: {crossed: [d, i], size: 4}, d: {crossed: [i, c], size: 4}
    2: columns.c.crossed[0]: column 'd' is a cross itself. List its keys instead.
    2: columns.d.crossed[1]: column 'c' is a cross itself. List its keys instead.
    2: columns.c: columns form a cycle: c -> d -> c. Change a source to break it.
columns + a: {indicator: c}, c: {indicator: d}, d: {embedding: e, dimension: 1}, e: {indicator: c}
    2: columns.a.indicator: column 'c' is indicator, expected a categorical column for indicator
    2: columns.c.indicator: column 'd' is embedding, expected a categorical column for indicator
    2: columns.d.embedding: column 'e' is indicator, expected a categorical column for embedding
    2: columns.e.indicator: column 'c' is indicator, expected a categorical column for indicator
    2: columns.c: columns form a cycle: c -> d -> e -> c. Change a source to break it.

# --- Groups
groups: {deep: f}
    3: groups.deep: got 'f', expected a list of column names
groups: {deep: []}
    3: groups.deep: the group is empty. List its columns or remove it.
groups: {deep: [f, f]}
    3: groups.deep[1]: column 'f' is listed twice. Remove one of them.
groups: {deep: [f, ff]}
    3: groups.deep[1]: got 'ff', expected the name of a column. Did you mean 'f'?
features + g: {dtype: string}
groups: {deep: [g]}
    3: groups.deep[0]: got 'g', expected the name of a column. 'g' is a feature, but a group lists
       columns.

# --- Labels and objectives
labels: {y: {dtype: string}}
    4: labels.y: a string label needs a vocabulary, and only a string label can have one
labels: {y: {dtype: int64, vocabulary: [a, b]}}
    4: labels.y: a string label needs a vocabulary, and only a string label can have one
labels: {y: {dtype: string, vocabulary: [a, a]}}
    4: labels.y: the vocabulary lists a word twice. Remove one of them.
labels: {y: {dtype: int64, default: 0}}
    4: labels.y.default: unknown key. Use one of: dtype, shape, vocabulary, missing, weight, true_probability.
labels: {f: {dtype: int64}}
objectives: {f: {head: binary}}
    4: labels.f: the label is also a feature and would leak into the model. Rename or remove one.
labels + z: {dtype: int64}
    4: labels.z: no objective learns this label. Add an objective or remove it.
labels: {y: {dtype: int64, weight: q}}
    4: labels.y.weight: got 'q', expected a feature or a label. Use one of: f, i, s, m, v, y.
labels: {y: {dtype: int64, weight: s}}
    4: labels.y.weight: 's' must be a single number
labels: {y: {dtype: int64, weight: v}}
    4: labels.y.weight: 'v' must be a single number
labels: {y: {dtype: int64, true_probability: ff}}
    4: labels.y.true_probability: got 'ff', expected a float32 feature of one value. Did you mean
       'f'?
labels: {y: {dtype: float32, true_probability: f}}
objectives: {y: {head: regression}}
    4: labels.y.true_probability: only the label of a binary head can have it. Remove it.
objectives: {y: {head: binry}}
    5: objectives.y.head: got 'binry', expected a head. Did you mean 'binary'?
objectives: {y: {head: softmax}}
    5: objectives.y.head: got 'softmax', expected a head. Use one of: binary, multi_class, regression, multi_label, poisson, logistic_regression, cosine, quantile, ranking, next_item, ordinal, ziln, survival.
objectives: {y: binary}
    5: objectives.y: got 'binary', expected a head. Use one of: binary, multi_class, regression, multi_label, poisson, logistic_regression, cosine, quantile, ranking, next_item, ordinal, ziln, survival.
objectives: {y: {head: ranking}}
    5: objectives.y: the head ranking needs group_by. Add the feature that names the group of a
       row, such as the id of a query, session or user.
objectives: {y: {head: binary, num_classes: 2}}
    5: objectives.y.num_classes: unknown key. Use one of: label, loss_weight, reduction, steps, head, loss, positive_penalty, metrics, group_by.
objectives: {y: {head: multi_class, num_classes: 2}}
    5: objectives.y.num_classes: got 2, expected greater than or equal to 3
objectives: {y: {head: binary, loss_weight: -1}}
    5: objectives.y.loss_weight: got -1, expected greater than or equal to 0
objectives: {z: {head: binary}}
    4: labels.y: no objective learns this label. Add an objective or remove it.
    5: objectives.z: got 'z', expected the name of a label. Use one of: y.
objectives + z: {head: binary, label: yy}
    5: objectives.z.label: got 'yy', expected the name of a label. Did you mean 'y'?
objectives + z: {head: binary, label: y}
    5: objectives.z: objectives 'y' and 'z' both learn the label 'y'. Give one of them another
       label, or remove it.
labels: {y: {dtype: string, vocabulary: [a, b, c]}}
    5: objectives.y: the head has 2 classes, but the vocabulary of label 'y' has 3 words. Make them
       equal.
labels: {y: {dtype: string, vocabulary: [a, b]}}
objectives: {y: {head: regression}}
    5: objectives.y: label 'y' is a string, expected a number
labels: {y: {dtype: float32}}
objectives: {y: {head: multi_class, num_classes: 3}}
    5: objectives.y: label 'y' is float32, expected int64 or string

# --- What nothing uses
features + g: {dtype: string}
    1: features.g: no group uses this feature. Add a column of it to a group, or list it under
       `ignored`, or under `raw` for a model that you write.
columns + c: {indicator: i}
    2: columns.c: no group uses this column. Add it to a group or remove it.
ignored: [f]
    6: ignored[0]: feature 'f' is used by column 'f'. To ignore it, remove these uses, and remove
       the columns from their groups. To use it, remove it from `ignored`.
columns + c: {embedding: s, dimension: 2}
groups: {deep: [f, i, c, m, v], wide: [s]}
labels: {y: {dtype: int64, weight: f}}
ignored: [s, f]
    6: ignored[0]: feature 's' is used by column 's', column 'c'. To ignore it, remove these uses,
       and remove the columns from their groups. To use it, remove it from `ignored`.
    6: ignored[1]: feature 'f' is used by column 'f', the weight of label 'y'. To ignore it, remove
       these uses, and remove the columns from their groups. To use it, remove it from `ignored`.
ignored: [y]
    6: ignored[0]: got 'y', expected the name of a feature. Use one of: f, i, s, m, v.
# --- What is easily overlooked
objectives: {y: {head: [binary]}}
    5: objectives.y.head: got ['binary'], expected a head. Did you mean 'binary'?
columns + c: {size: 4, hash_buckt: s}
    2: columns.c: got {'size': 4, 'hash_buckt': 's'}, expected one column kind, as in {numeric: x}.
       Did you mean 'hash_bucket'?
columns + c: {hash_bucket: s, size: 9, oov_buckets: 1}
    2: columns.c.oov_buckets: unknown key. Use one of: hash_bucket, size, salt, sequence.
columns + c: {vocabulary: s, list: [a], oov_buckets: 9223372036854775807}
    2: columns.c.oov_buckets: got 9223372036854775807, expected less than or equal to 4611686018427387904
columns + c: {numeric: f, normalizer: [log1p, {zscore: {mean: 1, stddev: 0}}]}
    2: columns.c.normalizer[1].zscore.stddev: got 0, expected greater than 0
columns + c: {numeric: f, normalizer: {clip: {min: 0, max: 1, step: 2}}}
    2: columns.c.normalizer.clip.step: unknown key. Use one of: min, max.
columns + c: {numeric: f, normalizer: [log1p, {zscore: {mean: 1, stdev: 2}}]}
    2: columns.c.normalizer[1].zscore.stddev: is missing
    2: columns.c.normalizer[1].zscore.stdev: unknown key. Did you mean 'stddev'?
columns + c: {numeric: f, normalizer: [log1p, {log1p: {}}]}
    2: columns.c.normalizer: got {'log1p': {}}, expected the word log1p without values
columns + c: {embedding: s, dimension: 2, dimenson: 3}
    2: columns.c.dimenson: unknown key. Did you mean 'dimension'? It is already set.
columns + c: {embedding: s, dimension: 2, pretrained: {fil: vectors.txt}}
    2: columns.c.pretrained.fil: unknown key. Did you mean 'file'?
drift: {default: {missing: {warm: 0.1}}}
    6: drift.default.missing.warm: unknown key. Did you mean 'warn'?
drift: {features: {s: {linf: {warn: 0.1}, mising: {warn: 0.1}}}}
    6: drift.features.s.linf: unknown key. Use one of: l_infinity, jensen_shannon, missing.
    6: drift.features.s.mising: unknown key. Did you mean 'missing'?
columns + c: {embedding: s, dimension: 2, initializer: {normal: {stddev: 1, mean: 0}}}
    2: columns.c.initializer.normal.mean: unknown key. Use one of: stddev.
columns + c: {embedding: s, dimension: 2, initializer: {zeros: {}}}
    2: columns.c.initializer: got {'zeros': {}}, expected the word zeros without values
columns + c: {numeric: f, normalizer: {zscore: 3}}
    2: columns.c.normalizer.zscore: got 3, expected a mapping of mean, stddev
columns + c: {bucketized: f, boundaries: []}
    2: columns.c.boundaries: got [], expected at least 1 item
columns + c: {crossed: [i], size: 9}
    2: columns.c.crossed: got ['i'], expected at least 2 items
columns + c: {crossed: i, size: 9}
    2: columns.c.crossed: got 'i', expected a list
features + c: {dtype: int64, default: [1]}
    1: features.c.default: got [1], expected one number or string
features + c: {dtype: int64, default: 9223372036854775808}
ignored: [c]
    1: features.c: the default must fit into an int64, got 9223372036854775808
features + c: {dtype: float32, default: 1.0e+39}
ignored: [c]
    1: features.c: the default must be a finite float32, got 1e+39
filter: [{feature: i, in: [1, 9223372036854775808]}, {feature: f, min: -1.0e+39}]
    6: filter[0].in: got 9223372036854775808, which does not fit into an int64. Remove it: no value can be equal to it.
    6: filter[1].min: got -1e+39, which does not fit into float32. Write a bound that float32 can hold, or remove it.
columns + c: {crossed: [i, i], size: 9}
groups: {deep: [f, i, s, m, v, c]}
    2: columns.c: key 'i' is listed twice. Remove one of them.
ignored: false
    6: ignored: got False, expected a list of features
features + c: {dtype: string}
ignored: [c, c]
    6: ignored[1]: feature 'c' is listed twice. Remove one of them.
features + f2: {dtype: int64}, b: {dtype: float32}
columns + b: {identity: f2, size: 3}, c: {bucketized: b, boundaries: [1]}
groups: {deep: [f, i, s, m, v, c]}
ignored: [f2]
    2: columns.b: no group uses this column. Add it to a group or remove it.
columns + c: {hash_bucket: i, size: 3}
groups: {deep: [f, i, s, m, v, c]}
    3: groups.deep: columns i, c would all have variables named 'i', because TensorFlow names a
       column after its features. Keep one of them.
labels: {y: {dtype: int64, weight: y}}
    4: labels.y.weight: a label cannot be its own weight. Name a feature or another label.
labels: {y: {dtype: int64, true_probability: v}}
    4: labels.y.true_probability: got 'v', expected a float32 feature of one value. Use one of: f.
labels: {y: {dtype: int64, true_probability: f}}
    4: labels.y.true_probability: feature 'f' is in a group and would leak into the model. Remove
       it from the group.
features + g: {dtype: float32}
labels: {y: {dtype: int64, true_probability: g}}
raw: [g]
    4: labels.y.true_probability: feature 'g' is in `raw` and would leak into the model. Remove it
       from `raw`.
# --- Filters
filter: [{feature: i}]
    6: filter[0]: has no condition. Set in, not_in, min or max.
filter: [{feature: i, min: 20, max: 18}]
    6: filter[0]: min must not be greater than max, got min 20 and max 18. No row would pass.
filter: [{feature: i, min: a}, {feature: f, max: .inf}]
    6: filter[0].min: got 'a', expected a finite number
    6: filter[1].max: got inf, expected a finite number
filter: [{feature: f, in: [1, 2]}, {feature: s, min: 1}, {feature: i, not_in: [a]}, {feature: i, max: 1.5}]
    6: filter[0].in: feature 'f' is float32. Use min and max instead.
    6: filter[1].min: feature 's' is a string. Use in or not_in instead.
    6: filter[2].not_in: got ['a'], but feature 'i' is int64
    6: filter[3].max: got 1.5, expected an integer, because feature 'i' is int64
filter: [{feature: ff, min: 1}, {feature: m, in: [a]}]
    6: filter[0].feature: got 'ff', expected the name of a feature. Did you mean 'f'?
    6: filter[1].feature: feature 'm' has the shape variable, expected one value per row
features + p: {dtype: string, decode: {image: {height: 2, width: 2, channels: 3}}}
columns + p: {numeric: p}
groups: {deep: [f, i, s, m, v, p]}
filter: [{feature: p, in: [a]}]
    6: filter[0].feature: feature 'p' has encoded bytes, which a filter cannot compare
filter: [{feature: i, min: 1}]
ignored: [i]
    7: ignored[0]: feature 'i' is used by column 'i', `filter`. To ignore it, remove these uses, and
       remove the columns from their groups. To use it, remove it from `ignored`.

# --- Parts that do not fit together
features + g: {dtype: int64, shape: [2]}
columns + c: {crossed: [g, i], size: 9}
    2: columns.c.crossed[0]: feature 'g' has a fixed length. Declare it with shape: variable.
features + w: {dtype: float32, shape: variable}
columns + b: {bucketized: f, boundaries: [1]}, c: {weighted: b, weight: w}
    2: columns.c.weighted: column 'b' is bucketized, expected an identity, vocabulary or hash_bucket
       column
labels: {y: {dtype: string, shape: [2], vocabulary: [a, b]}}
    4: labels.y: a string label is one word or a list, got the shape [2]. Use shape: variable for a
       list of words.
objectives: {y: {head: multi_class, num_classes: 3, class_penalties: [1, 2]}}
    5: objectives.y: class_penalties has 2 numbers, expected one for each of the 3 classes
objectives: {y: {head: binary, metrics: auc}}
    5: objectives.y.metrics: got 'auc', expected a list of metrics
objectives: {y: {head: ranking, group_by: s}}
ignored: [s]
    6: ignored[0]: feature 's' is used by column 's', the group of objective 'y'. To ignore it,
       remove these uses, and remove the columns from their groups. To use it, remove it from
       `ignored`.
labels: {y: {dtype: string, vocabulary: [a, b]}}
retraining: {label_rate: {y: {min: 0.5, max: 0.25}}}
    6: retraining.label_rate.y: min must not be greater than max, got min 0.5 and max 0.25. No
       period would pass.
labels: {y: {dtype: string, vocabulary: [a, b]}}
retraining: {label_rate: {y: {min: 0.25}}}
    6: retraining.label_rate.y: label 'y' has words, which have no mean. Remove it.
"""  # noqa: E501


def cases(table):
    """The parameters (changes, problems) of every case of a table."""
    changes, problems = {}, []
    for line in [*table.splitlines(), "end:"]:
        if line.startswith("#") or not line:
            continue
        if problems and not line.startswith("    "):
            name = " ".join(f"{key} {text}" for key, text in changes.items())
            yield pytest.param(changes, problems, id=ascii(name)[1:70])
            changes, problems = {}, []
        if line.startswith("          "):
            changes[section] += line[9:]  # noqa: F821
        elif line.startswith("       "):
            problems[-1] += line[6:]
        elif line.startswith("    "):
            problems.append(line[4:])
        else:
            section, text = re.match(r"(\w+) ?(.*)", line).groups()
            changes[section] = text


def spec_text(changes):
    """The good spec with changes: `: text` replaces a section, `+ x` adds to it, `-` removes it."""
    lines = []
    for section in {**SECTIONS, **changes}:
        entries, change = f"{{{SECTIONS.get(section)}}}", changes.get(section, "")
        if change.startswith("+"):
            entries = f"{entries[:-1]}, {change[2:]}}}"
        elif change.startswith(":"):
            entries = change[1:]
        if change != "-":
            lines.append(f"{section}: {entries}\n")
    return "".join(lines)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def assert_problems(file, problems):
    """Asserts that loading the file reports exactly these problems, as `line: path: message`."""
    with pytest.raises(SpecError) as error:
        feature_specs.load(file)
    noun = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    listing = "".join(f"\n  {file}:{problem}" for problem in problems)
    listing = listing.replace("<kinds>", ", ".join(kinds.COLUMN_KINDS))
    assert str(error.value) == f"{file}: {noun} in the feature spec{listing}"


def test_the_good_spec_is_good(folder):
    pathlib.Path("spec.yaml").write_text(spec_text({}))
    assert feature_specs.load("spec.yaml").used_columns() == ("f", "i", "s", "m", "v")


@pytest.mark.parametrize("changes, problems", list(cases(BROKEN)))
def test_what_a_broken_spec_is_told(folder, changes, problems):
    pathlib.Path("spec.yaml").write_text(spec_text(changes), encoding="utf-8")
    assert_problems("spec.yaml", problems)


# --- All at once, in line order -------------------------------------------------------------------

SEVERAL = """\
groups:
  deep: [x, y, x]
features:
  x:
    dtype: float32
    default: a
  y: {dtype: int63}
columns:
  x: {numeric: x, normalizr: log1p}
  y:
    bucketized: x
    boundaries:
    - 1
    - 1
labels:
  z: {dtype: int64}
objectives:
  z: {head: binry}
"""


def test_all_problems_of_a_stage_come_at_once_in_line_order(folder):
    pathlib.Path("spec.yaml").write_text(SEVERAL)
    entries_alone = [
        "4: features.x: the default must be of dtype float32, got 'a'. Change default or dtype.",
        "7: features.y.dtype: got 'int63', expected 'float32', 'int64' or 'string'. Did you mean "
        "'int64'?",
        "9: columns.x.normalizr: unknown key. Did you mean 'normalizer'?",
        "12: columns.y.boundaries: boundaries must be strictly increasing, got 1.0 at [0] and 1.0 "
        "at [1]. Remove one of the two.",
        "18: objectives.z.head: got 'binry', expected a head. Did you mean 'binary'?",
    ]
    assert_problems("spec.yaml", entries_alone)


def test_names_are_looked_at_when_all_entries_are_right(folder):
    text = SEVERAL.replace("default: a", "default: 1").replace("int63", "string")
    text = text.replace("normalizr", "normalizer").replace("- 1\nlabels", "- 2\nlabels")
    text = text.replace("bucketized: x", "bucketized: y").replace("binry", "binary, label: q")
    pathlib.Path("spec.yaml").write_text(text)
    names = [
        "2: groups.deep[2]: column 'x' is listed twice. Remove one of them.",
        "11: columns.y.bucketized: feature 'y' must hold one number or a fixed number of numbers, "
        "[n]",
        "16: labels.z: no objective learns this label. Add an objective or remove it.",
        "18: objectives.z.label: got 'q', expected the name of a label. Use one of: z.",
    ]
    assert_problems("spec.yaml", names)


def test_a_problem_without_a_line_of_its_own_has_that_of_its_entry(folder):
    text = "columns:\n  c:\n    embedding: s\n"
    pathlib.Path("spec.yaml").write_text(spec_text({"columns": "-"}) + text)
    assert_problems(
        "spec.yaml",
        ["6: columns.c.dimension: is missing. Set it, or table: a name of embedding_tables."],
    )


# --- Files and documents --------------------------------------------------------------------------


def test_a_path_that_cannot_be_one():
    with pytest.raises(SpecError, match=r"the top level: cannot be read: .*embedded null"):
        feature_specs.load("a\0b")


@pytest.mark.parametrize(
    "content, problem",
    [
        (None, " the top level: cannot be read: No such file or directory"),
        ("folder", " the top level: cannot be read: Is a directory"),
        (
            b"features:\n  \xfc: {}",
            " the top level: cannot be read: 'utf-8' codec can't decode byte 0xfc in position 12: "
            "invalid start byte",
        ),
        (b"", " the top level: got None, expected the sections of a spec"),
        (b"# nothing yet\n", " the top level: got None, expected the sections of a spec"),
        (b"\n- 1\n", "2: the top level: got [1], expected the sections of a spec"),
        (b"a spec", "1: the top level: got 'a spec', expected the sections of a spec"),
        (b"a: b: c", "1: the top level: not YAML: mapping values are not allowed here"),
    ],
)
def test_files_that_are_no_spec(folder, content, problem):
    file = pathlib.Path("spec.yaml")
    if content == "folder":
        file.mkdir()
    elif content is not None:
        file.write_bytes(content)
    assert_problems("spec.yaml", [problem])


def test_a_dict_has_no_lines_and_the_name_that_it_is_given(document):
    document["features"]["city"]["dtype"] = "text"
    with pytest.raises(SpecError) as error:
        feature_specs.parse(document, source="my_spec")
    assert str(error.value) == (
        "my_spec: 1 problem in the feature spec\n"
        "  my_spec: features.city.dtype: got 'text', expected 'float32', 'int64' or 'string'"
    )
    assert error.value.source == "my_spec"
    assert [(p.path, p.line) for p in error.value.problems] == [
        (("features", "city", "dtype"), None)
    ]


def test_a_long_value_is_cut_in_the_middle(document):
    document["groups"]["deep"] = "a" * 50 + "b" * 50  # The quotes count, so 29 letters are left.
    with pytest.raises(SpecError) as error:
        feature_specs.parse(document)
    assert error.value.problems[0].message == (
        "got 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaa ... bbbbbbbbbbbbbbbbbbbbbbbbbbbbb', "
        "expected a list of column names"
    )


@pytest.mark.parametrize("name", ["c\n", 1])
def test_names_that_only_look_right(document, name):
    document["features"][name] = {"dtype": "string"}
    document["ignored"] = [name] if isinstance(name, str) else []
    with pytest.raises(
        SpecError, match="a name must start with a letter or digit, and may then contain letters"
    ):
        feature_specs.parse(document)


def test_cycles_are_looked_for_in_linear_time(document):
    class Counted(dict):
        reads = 0

        def __getitem__(self, key):
            Counted.reads += 1
            return super().__getitem__(key)

    columns = Counted()
    for i in range(12):
        columns[f"x{i}"] = kinds.Crossed(crossed=[f"x{i + 1}", f"x{i + 2}"], size=9)
    spec = feature_specs.parse(document)
    assert list(validation.check_cycles(dataclasses.replace(spec, columns=columns))) == []
    assert Counted.reads < 100


def test_integers_that_no_float_holds():
    many = 10**400
    document = copy.deepcopy(conftest.DOCUMENT)
    document["features"]["price"]["default"] = many
    with pytest.raises(SpecError, match="the default must be a finite float32, got 1000"):
        feature_specs.parse(document)
    document = copy.deepcopy(conftest.DOCUMENT)
    document["filter"] = [{"feature": "price", "max": many}]
    with pytest.raises(SpecError, match="which does not fit into float32"):
        feature_specs.parse(document)


def test_raw_features_are_read_and_change_the_identity_of_a_spec(document):
    before = feature_specs.parse(document)
    assert before.raw == () and "raw" not in before.to_dict()
    features = {
        **document["features"],
        "words": {"dtype": "string", "shape": "variable", "row_lengths": "counts"},
        "counts": {"dtype": "int64", "shape": "variable"},
    }
    spec = feature_specs.parse({**document, "features": features, "raw": ["words", "city"]})
    assert spec.used_features() == (*before.used_features(), "words", "counts")
    assert feature_specs.parse(spec.to_dict()) == spec
    only_listed = feature_specs.parse({**document, "raw": ["city"]})
    assert only_listed.used_features() == before.used_features()
    assert only_listed.fingerprint() != before.fingerprint()


def test_a_spec_can_be_copied():
    """TensorFlow copies the model, with its spec, for each task of an all-reduce."""
    spec = feature_specs.parse(conftest.DOCUMENT)
    assert list(spec.of_kind(kinds.Embedding)) == ["user_emb", "tag_emb"]
    copied = copy.deepcopy(spec)
    assert copied == spec
    assert copied.of_kind(kinds.Embedding) == spec.of_kind(kinds.Embedding)
