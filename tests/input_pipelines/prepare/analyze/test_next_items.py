"""A first spec of sequences: columns of steps, and the head `next_item`."""

from __future__ import annotations

import json
import random

import pytest

import feature_specs
from input_pipelines.errors import DataError
from input_pipelines.prepare.analyze import first_spec


def analyze(folder, rows, label="next_item"):
    """The spec of an analysis of some rows."""
    path = folder / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    first_spec.write([str(path)], labels=[label], directory=f"{folder}/first", min_count=2)
    return feature_specs.load(f"{folder}/first/spec.yaml")


def rows_of(count=200, integers=False):
    rng = random.Random(0)
    for i in range(count):
        walk = [rng.randrange(30) for _ in range(i % 5 + 2)]
        walk = walk if integers else [f"i{item}" for item in walk]
        steps = walk[:-1]
        yield {
            "user": f"u{i % 40}",
            "item": steps,
            "category": [rng.choice(["x", "y"]) for _ in steps],
            "price": [rng.random() for _ in steps],
            "tags": [rng.choice("abc") for _ in range(rng.randrange(4))],
            "next_item": walk[1:],
        }


@pytest.mark.parametrize("integers", [False, True])
def test_steps_and_the_item_after_each(tmp_path, integers):
    spec = analyze(tmp_path, rows_of(integers=integers))
    objective = spec.objectives["next_item"]
    assert (objective.head, objective.items) == ("next_item", "item_step")
    label = spec.labels["next_item"]
    assert (label.dtype, label.shape) == ("int64" if integers else "string", "variable")
    # Lists that are as long have columns of steps, and other lists do not.
    assert set(spec.groups["steps"]) == {"item_step_emb", "category_step_emb"}
    assert spec.columns["item_step_emb"].dimension == 64
    assert spec.columns["item_step"].is_sequence(spec)
    words = (tmp_path / "first/vocabularies/item.txt").read_text().split()
    assert set(words) == {str(i) if integers else f"i{i}" for i in range(30)}
    text = (tmp_path / "first/spec.yaml").read_text()
    assert (
        "# a guess: its name is next_ and the name of item, and both have as many values." in text
    )


def test_a_catalogue_of_few_items_has_an_embedding(tmp_path):
    rows = [{**row, "item": ["a"] * len(row["item"]), "next_item": ["b"] * len(row["item"])}
            for row in rows_of()]  # fmt: skip
    rows[0] = {**rows[0], "item": ["b"], "next_item": ["a"]}
    assert analyze(tmp_path, rows).columns["item_step_emb"].dimension == 64


@pytest.mark.parametrize(
    "change",
    [
        lambda row: {**row, "next_item": [*row["next_item"], "i0"]},  # Longer.
        lambda row: {**row, "next_item": [1] * len(row["next_item"])},  # Of another type.
        lambda row: {"other" if name == "item" else name: v for name, v in row.items()},
    ],
)
def test_other_lists_are_no_labels(tmp_path, change):
    with pytest.raises(DataError, match=r"feature 'next_item' has up to \d values in a record; a "):
        analyze(tmp_path, map(change, rows_of()))


def test_items_without_usable_values(tmp_path):
    rows = [{**row, "item": [""] * len(row["item"])} for row in rows_of()]
    with pytest.raises(DataError) as error:
        analyze(tmp_path, rows)
    assert str(error.value) == "--labels: 'next_item' follows 'item', which has no usable values"
