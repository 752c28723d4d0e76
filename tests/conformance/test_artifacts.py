"""Each artifact obeys its row of `feature_specs.meaning`.

Between the run that writes an artifact and the start that reads it, one declared value changes. The
start goes on, unless the row names an aspect that this value changes; then it does what the row
says. `test_declarations` shows that the declarations are true. A new row needs a maker in
`artifacts`, and a new aspect a change in `CHANGES`.
"""

from __future__ import annotations

import shutil

import pytest

from estimator_kit.errors import CheckpointError, ConfigError
from feature_specs import meaning
from feature_specs.meaning import ASPECTS, NOTHING
from tests.conformance.artifacts import ARTIFACTS, Change, Start, other_rows, write_data

ROWS = {name: row for name, row in vars(meaning).items() if isinstance(row, meaning.Compared)}


def setting(name, value):
    return Change("setting", name, value)


def field(place, value):
    return Change("field", place, value)


def parameter(name, value):
    return Change("parameter", name, value)


# Changes of each aspect: where possible, they declare nothing else.
CHANGES = {
    "records": [
        setting("convert_order", "shuffled"), setting("csv_comment", "#"),
        field("tables.csv_missing", ["NA", "?"]),
    ],
    "rows": [setting("shuffle", False), field("filter.0.min", -2.0)],
    "values": [
        field("features.price.default", 1.0), field("columns.price.normalizer", "log1p"),
        field("features.unread.default", 1.0),
    ],
    "weights": [field("columns.tag_emb.combiner", "sum"), parameter("activation", "tanh")],
    "outputs": [
        setting("default_signature", "predict_raw"), setting("predict_outputs", ("click/logits",)),
        setting("keep_columns", ("user",)), parameter("forward_features", ["user"]),
        field("labels.level.vocabulary", ["high", "low", "mid"]),
    ],
    "training": [
        setting("save_checkpoints_steps", 7), setting("batch_size", 20), parameter("dropout", 0.5),
        field("columns.tag_emb.initializer", "zeros"), field("retraining.full_every", 3),
    ],
    "scores": [
        setting("eval_steps", 7), setting("eval_batch_size", 7),
        field("objectives.click.group_by", "city"),
    ],
    "limits": [
        setting("window_min", ("2rows",)),
        field("features.city.required", True), field("drift.labels", {"click": {}}),
        field("retraining.period_rows", {"otherwise": "stop"}),
    ],
    "nothing": [
        setting("log_every_secs", 7.0), field("objectives.click.metrics", ["gauc", "log_loss"]),
    ],
}  # fmt: skip


def changes_of(artifact, aspect):
    return [change for change in CHANGES[aspect] if ARTIFACTS[artifact].reads(change)]


def marks(artifact):
    return () if ARTIFACTS[artifact].is_fast else pytest.mark.nightly


CASES = [
    pytest.param(artifact, aspect, marks=marks(artifact))
    for artifact in ARTIFACTS
    for aspect in CHANGES
    if changes_of(artifact, aspect)
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A function: (the folder of an artifact, the folder of its data). Each is made once."""
    data, kept = tmp_path_factory.mktemp("data"), {}
    write_data(data)

    def make(kind):
        if kind not in kept:
            folder = tmp_path_factory.mktemp("artifact")
            if kind.made_from is not None:
                shutil.copytree(make(kind.made_from)[0], folder, dirs_exist_ok=True)
            kind().make(folder, Start(data))
            kept[kind] = folder
        return kept[kind], data

    return make


def follows(artifact, made, place, start):
    """What follows when a copy of the artifact is read: None, or words of its row."""
    reader, folder = ARTIFACTS[artifact], made(type(ARTIFACTS[artifact]))[0]
    if reader.is_copied:
        folder = shutil.copytree(folder, place)
    try:
        return reader.read(folder, start)
    except (CheckpointError, ConfigError) as error:
        named = "files" if start.change is None else reader.named(start.change)
        assert named in str(error)
        return "refused"


def test_each_row_has_a_maker_and_each_aspect_a_change():
    assert {*ROWS.values()} == {*meaning.ALL}
    assert ARTIFACTS.keys() == ROWS.keys()
    assert [*CHANGES] == [*ASPECTS, NOTHING]
    for aspect, changes in CHANGES.items():
        for change in changes:
            assert change.aspects == set() if aspect == NOTHING else aspect in change.aspects
    # Each aspect of a row is seen to count by itself.
    for artifact, row in ROWS.items():
        for aspect in row.aspects:
            alone = [
                change for change in changes_of(artifact, aspect)
                if ARTIFACTS[artifact].uses(change) and change.aspects & {*row.aspects} == {aspect}
            ]  # fmt: skip
            assert alone, (artifact, aspect)


@pytest.mark.parametrize(("artifact", "aspect"), CASES)
def test_an_artifact_obeys_its_row(artifact, aspect, made, tmp_path):
    reader, row = ARTIFACTS[artifact], ROWS[artifact]
    data = made(type(reader))[1]
    if aspect == NOTHING:
        assert follows(artifact, made, tmp_path / "same", Start(data)) is None
    for number, change in enumerate(changes_of(artifact, aspect)):
        found = follows(artifact, made, tmp_path / str(number), Start(data, change))
        counts = change.aspects & {*row.aspects} or reader.also(change)
        if counts and reader.uses(change):
            assert found is not None and found in row.otherwise, change
        else:
            assert found is None, change


@pytest.mark.parametrize(
    "artifact",
    [
        pytest.param(artifact, marks=marks(artifact))
        for artifact, row in ROWS.items()
        if "content" in row.also or "sizes" in row.also
    ],
)
def test_the_content_of_files_counts_where_a_row_says_so(artifact, made, tmp_path):
    data = made(type(ARTIFACTS[artifact]))[1]
    with other_rows(data):
        found = follows(artifact, made, tmp_path / "other", Start(data))
    assert found is not None and found in ROWS[artifact].otherwise
    assert follows(artifact, made, tmp_path / "same", Start(data)) is None
