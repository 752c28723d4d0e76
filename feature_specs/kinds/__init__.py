"""The column kinds of a spec. `COLUMN_KINDS` lists them all.

The names follow `tf.feature_column`: a `hash_bucket` column of a spec is a
`categorical_column_with_hash_bucket`, and so on. The parser, the JSON Schema and all other code
take the kinds from `COLUMN_KINDS`. This module does not import TensorFlow.

To add a kind, change four files, give the test a column of it (`every_kind` in
tests/conformance/test_conformance.py), and make `spec.schema.json` again with
`python -m feature_specs.json_schema`:

    feature_specs/kinds/<module>.py     its model: entry, checks, names, sources, and the
                                        `tf.feature_column` of the reference reading. `base.Column`
                                        lists what a kind may override
    feature_specs/kinds/__init__.py     its place in the list below
    input_pipelines/transform/kinds.py  its transform, from parsed features to ids or numbers, in
                                        the table `TRANSFORMS`
    estimator_kit/client/record_spec.py its name in the client, which installs without this package

`Column.dense` names the form in which a dense layer reads the kind, and so chooses the gather. A
kind with a new form also needs a name in `base.Dense` and an entry in the tables of
`estimator_kit/model/gathers.py`. tests/conformance/test_column_kinds.py fails if a kind is missing
in one of the tables.
"""

from __future__ import annotations

from feature_specs.kinds.base import Column
from feature_specs.kinds.categorical import HashBucket, Identity, Indicator
from feature_specs.kinds.crossed import Crossed
from feature_specs.kinds.embedding import Embedding, EmbeddingTable
from feature_specs.kinds.growing import Growing
from feature_specs.kinds.missing import IsMissing
from feature_specs.kinds.numeric import Bucketized, Numeric, SequenceNumeric
from feature_specs.kinds.ragged import Ragged
from feature_specs.kinds.time import Time
from feature_specs.kinds.vocabulary import Vocabulary
from feature_specs.kinds.weighted import Weighted

# In the order in which messages list them.
COLUMN_KINDS: dict[str, type[Column]] = {
    column.kind: column
    for column in (
        Numeric,
        SequenceNumeric,
        Ragged,
        Bucketized,
        IsMissing,
        Identity,
        Time,
        Vocabulary,
        HashBucket,
        Growing,
        Crossed,
        Weighted,
        Indicator,
        Embedding,
    )
}

__all__ = [
    "COLUMN_KINDS",
    "Bucketized",
    "Column",
    "Crossed",
    "Embedding",
    "EmbeddingTable",
    "Growing",
    "HashBucket",
    "Identity",
    "Indicator",
    "IsMissing",
    "Numeric",
    "Ragged",
    "SequenceNumeric",
    "Time",
    "Vocabulary",
    "Weighted",
]
