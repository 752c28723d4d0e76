"""A first spec of sequences: columns of steps, and the head `next_item`."""

from __future__ import annotations

import json
import random

import pytest

import feature_specs
from input_pipelines.errors import DataError
from input_pipelines.prepare.analyze import first_spec
from input_pipelines.prepare.analyze.vocabularies import min_count_of_items


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


@pytest.mark.parametrize("integers", [False, True])
@pytest.mark.parametrize(
    ("history", "repeats"),
    [
        ([1, 2, 3], False),
        ([1, 2, 1, 3], True),  # Among the steps.
        ([1, 2, 3, 1], True),  # The last next item is the first step.
        ([1, 1], True),
    ],
)
def test_seen_items_are_left_out_where_no_record_has_an_item_twice(
    tmp_path, history, repeats, integers
):
    history = history if integers else [f"i{item}" for item in history]
    others = [[4, 5, 6], [6, 4], [5, 1]] * 2
    others = others if integers else [[f"i{item}" for item in row] for row in others]
    rows = [{"item": row[:-1], "next_item": row[1:]} for row in [*others, history, *others]]
    objective = analyze(tmp_path, rows).objectives["next_item"]
    assert objective.exclude_seen is not repeats
    text = (tmp_path / "first/spec.yaml").read_text()
    reason = "exclude_seen stays off" if repeats else "No record has an item twice, so exclude_seen"
    assert reason in " ".join(text.replace("#", " ").split())


def test_the_catalogue_has_nearly_all_items(tmp_path):
    """Also rare ones, and those that are only the last next item of records."""
    rows = [{"item": [f"i{i}", "a"], "next_item": ["a", f"last{i}"]} for i in range(10)]
    analyze(tmp_path, rows)
    words = (tmp_path / "first/vocabularies/item.txt").read_text().split()
    assert words == ["a", *(f"i{i}" for i in range(10)), *(f"last{i}" for i in range(10))]
    counts = (tmp_path / "first/vocabularies/item.counts.tsv").read_text().splitlines()
    assert counts[:2] == ["a\t10", "i0\t1"] and counts[-1] == "last9\t0"


@pytest.mark.parametrize(
    ("counts", "least"),
    [
        ([1] * 1000 + [90] * 100, 1),  # 10 % of the values.
        ([1] * 100 + [2] * 50 + [99] * 100, 2),  # 1 %, and 2 % with the next ones.
        ([3] * 9, 3),
        ([1] * 10 + [1000] * 9, 5),  # 0.1 %.
        ([], 5),
    ],
)
def test_how_rare_an_item_may_be(counts, least):
    assert min_count_of_items(counts, 5) == least


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
