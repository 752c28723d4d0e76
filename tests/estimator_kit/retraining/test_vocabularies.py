"""How vocabularies grow with the data: append, re_rank and keep."""

from __future__ import annotations

import json
import pathlib

import pytest
import yaml

from estimator_kit.retraining import vocabularies
from feature_specs.parser import parser
from input_pipelines.prepare.analyze.scan import scan
from input_pipelines.record_files import writing
from tests.integration.retraining_data import write_spec


@pytest.mark.parametrize(
    ("growth", "live", "words", "changes"),
    [
        ("append", None, ["oslo", "rome", "lima"], (2, 0, 0)),
        ("append", ["bern", "rome"], ["bern", "rome", "lima"], (1, 0, 0)),
        ("re_rank", None, ["rome", "lima"], (2, 0, 1)),
        ("re_rank", ["lima", "rome"], ["rome", "lima"], (0, 2, 0)),
        ("keep", None, ["oslo"], (0, 0, 0)),
    ],
)
def test_words(tmp_path, growth, live, words, changes):
    path = write_spec(tmp_path, vocabularies=growth)
    rows = [{"city": city, "click": 1, "buy": 0} for city in ["rome"] * 3 + ["lima"] * 2 + ["bonn"]]
    writing.write_examples(str(tmp_path / "a.tfrecord"), rows)
    folder = None
    if live is not None:
        folder = tmp_path / "live"
        (folder / "words").mkdir(parents=True)
        (folder / "words" / "city.txt").write_text("\n".join([*live, ""]))
    for _ in range(2):  # The second time replaces the result of the first.
        found = vocabularies.make(
            parser.load(path), str(tmp_path / "made"), files=[str(tmp_path / "a.tfrecord")],
            min_count=2, live=None if folder is None else str(folder),
        )  # fmt: skip
    assert (tmp_path / "made/words/city.txt").read_text().split() == words
    entry = found.files["words/city.txt"]
    assert (entry.new, entry.moved, entry.dropped) == changes
    assert entry.words == len(words)
    assert (tmp_path / "words/city.txt").read_text() == "oslo\n"
    assert parser.load(found.spec).retraining.vocabularies == growth


def test_the_files_of_pretrained_vectors_come_along(tmp_path):
    path = write_spec(tmp_path, vocabularies="keep")
    for name in ("vectors/model.ckpt-9.index", "vectors/model.ckpt-9.data-00000-of-00001"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    with open(path, encoding="utf-8") as file:
        document = yaml.safe_load(file)
    document["columns"]["city_emb"] = {
        "embedding": "city", "dimension": 2,
        "pretrained": {"checkpoint": "vectors/model.ckpt-9", "tensor": "table"},
    }  # fmt: skip
    document["groups"]["deep"] = [*document["groups"]["deep"], "city_emb"]
    pathlib.Path(path).write_text(yaml.safe_dump(document, sort_keys=False))
    vocabularies.make(parser.load(path), str(tmp_path / "made"), files=[], min_count=1)
    for name in ("vectors/model.ckpt-9.index", "vectors/model.ckpt-9.data-00000-of-00001"):
        assert (tmp_path / "made" / name).read_text() == name


def _write_prices(path, prices):
    rows = [{"city": "rome", "price": price, "click": 1, "buy": 0} for price in prices]
    writing.write_examples(str(path), rows)
    return [str(path)]


@pytest.mark.parametrize(
    ("growth", "boundaries", "mean", "kept"),
    [
        # With append, price keeps the statistics of the start: the values 1 to 4.
        ("append", (3.0,), 2.5, ["statistics.json"]),
        # The window has the values 11 to 14.
        ("re_rank", (13.0,), 12.5, []),
        ("keep", (3.0,), 2.5, []),
    ],
)
def test_a_warm_start_keeps_its_statistics_with_append(tmp_path, growth, boundaries, mean, kept):
    path = pathlib.Path(write_spec(tmp_path, vocabularies=growth))
    document = json.loads(path.read_text())
    columns = document["columns"]
    columns["price"]["normalizer"] = {"zscore": {"statistics": "statistics.json"}}
    columns["bucket"] = {"bucketized": "price", "quantiles": 2, "statistics": "statistics.json"}
    document["columns"]["price_z"] = columns.pop("price")
    document["groups"] = {"wide": ["bucket", "price_z"]}
    document["ignored"] = ["user", "tags"]
    for name in ("user", "city_x_tag", "user_emb", "tag_emb", "tag", "city_hot"):
        del columns[name]
    document["groups"]["wide"].append("city")
    path.write_text(json.dumps(document))
    old = _write_prices(tmp_path / "old.tfrecord", [1.0, 2.0, 3.0, 4.0])
    # The given spec needs a statistics file before it can be read.
    (tmp_path / "statistics.json").write_text(scan(old).statistics(1).as_text())
    first = vocabularies.make(parser.load(path), str(tmp_path / "first"), files=old, min_count=2)
    assert first.kept == []
    new = _write_prices(tmp_path / "new.tfrecord", [11.0, 12.0, 13.0, 14.0])
    second = vocabularies.make(
        parser.load(path), str(tmp_path / "second"), files=new, min_count=2,
        live=str(tmp_path / "first"), start=str(tmp_path / "first"),
    )  # fmt: skip
    spec = parser.load(second.spec)
    assert spec.columns["bucket"].boundaries == boundaries
    assert spec.columns["price_z"].normalizer[0].zscore.mean == mean
    assert second.kept == kept
    # A training from scratch takes the statistics of the window.
    scratch = vocabularies.make(
        parser.load(path), str(tmp_path / "third"), files=new, min_count=2,
        live=str(tmp_path / "first"),
    )  # fmt: skip
    expected = (3.0,) if growth == "keep" else (13.0,)
    assert parser.load(scratch.spec).columns["bucket"].boundaries == expected
