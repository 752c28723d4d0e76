"""tools/reference: the pages that are written from the code. MkDocs itself is not needed here."""

from __future__ import annotations

import ast
import re

import pydantic
import pytest

from estimator_kit import exit_codes
from estimator_kit.config.modes import MODES
from estimator_kit.config.settings import AllSettings
from estimator_kit.observing import model_dir_files
from feature_specs.heads import metric_meanings
from feature_specs.heads.metric_choices import BY_GROUP
from feature_specs.heads.objectives import HEADS
from feature_specs.kinds import COLUMN_KINDS
from feature_specs.meaning import compared
from feature_specs.meaning.aspects import ASPECTS
from tests.conftest import ROOT
from tools import docs_hook
from tools.reference import api, entries, models, program, serving, spec
from tools.reference.docstrings import Docstring, escaped, table
from tools.reference.pages import PAGES
from tools.reference.schema_types import type_text
from tools.reference.source import Module, fields_of, params_of

pytestmark = pytest.mark.no_tensorflow


@pytest.fixture(scope="module")
def pages():
    return {path: write() for path, write in PAGES.items()}


def test_every_page_has_a_title_and_is_in_the_navigation(pages):
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for path, text in pages.items():
        assert text.startswith("# "), path
        assert f": {path}\n" in navigation, path


def test_links_inside_the_reference_have_a_target(pages):
    anchors = {
        path: {*re.findall(r"\{ #([\w.-]+) \}", text), *re.findall(r'<span id="([\w.-]+)">', text)}
        for path, text in pages.items()
    }
    for path in ("spec", "columns", "objectives", "flags", "models"):
        page = f"reference/{path}.md"
        for target, anchor in re.findall(r"\]\((\w*(?:\.md)?)#([\w.-]+)\)", pages[page]):
            assert anchor in anchors[f"reference/{target}" if target else page], (page, anchor)


def test_the_spec_has_every_kind_head_loss_and_metric(pages):
    for kind in COLUMN_KINDS:
        assert f"## {kind} {{ #{kind} }}" in pages["reference/columns.md"]
    heads = pages["reference/objectives.md"]
    for head in HEADS:
        assert f"## {head} {{ #{head} }}" in heads
    for name in metric_meanings.MEANINGS:
        assert f'<span id="metric-{name}"></span>' in heads


@pytest.mark.parametrize("model", list(spec.models()), ids=lambda model: model.__name__)
def test_the_examples_of_an_entry_use_every_field(model):
    assert entries.checked_examples(model)


def test_an_example_that_its_class_refuses_is_an_error(monkeypatch):
    monkeypatch.setattr(entries, "examples", lambda: {"Clip": [{"clip": {"min": 3.0, "max": 1.0}}]})
    clip = next(model for model in spec.models() if model.__name__ == "Clip")
    with pytest.raises(pydantic.ValidationError, match=r"got min 3\.0 and max 1\.0"):
        entries.checked_examples(clip)


def test_a_field_without_an_example_is_an_error(monkeypatch):
    monkeypatch.setattr(entries, "examples", lambda: {"Indicator": []})
    with pytest.raises(ValueError) as error:
        entries.checked_examples(COLUMN_KINDS["indicator"])
    assert str(error.value) == (
        "spec_examples.yaml: Indicator has no example for indicator. Add an entry that has it."
    )


def test_the_page_of_meanings_has_every_aspect_artifact_and_value(pages):
    page = pages["how_it_works/meaning.md"]
    picture = (ROOT / "docs/images/meaning.svg").read_text(encoding="utf-8")
    for aspect in ASPECTS:
        assert f"\n| `{aspect}` | " in page and f">{aspect}</text>" in picture, aspect
    for row in compared.ALL:
        assert f"\n| {row.artifact} | {', '.join(row.aspects)} | {row.also} | " in page
    values = {*AllSettings.model_fields, "columns.identity.size", "objectives.binary.loss_weight"}
    assert {*re.findall(r"\n\| `(?:--)?([\w.]+)` \| ", page)} >= values
    for owner, name, aspects in (("`dcn`", "rank", "weights"), ("`two_tower`", "item_id",
                                 "training, scores"), ("all models", "forward_features", "outputs"),
                                 ("`wide_deep`", "wide_group", "nothing (named)")):  # fmt: skip
        assert f"\n| `--model_params={name}` of {owner} | {aspects} |\n" in page


def test_every_metric_has_a_meaning_and_a_home():
    reported = {name for names in metric_meanings.ALWAYS.values() for name in names}
    asked = {name for head in HEADS.values() for name in spec.chosen_metrics(head)}
    also = {*metric_meanings.WITH_TRUE_PROBABILITY, *metric_meanings.WITH_GROUPS}
    assert reported | asked | also == set(metric_meanings.MEANINGS)
    assert set(BY_GROUP) <= asked
    assert set(metric_meanings.ALWAYS) == set(HEADS)


def test_flags_by_mode(pages):
    text = pages["reference/flags.md"]
    for mode in MODES:
        assert f"### --mode={mode} {{ #mode-{mode} }}" in text
    for name in AllSettings.model_fields:
        assert text.count(f'<span id="flag-{name}"></span>') == 1
    assert (
        '| <span id="flag-max_steps"></span>`--max_steps` | integer, 1 or more | none | '
    ) in text
    history = text.partition("{ #mode-history }")[2].partition("###")[0]
    assert "[`--model_dir`](#flag-model_dir)" in history
    assert "--batch_size" not in history


def test_exit_statuses(pages):
    text = pages["reference/exit_statuses.md"]
    for status in exit_codes.MEANING:
        assert f"\n| `{status}` | `" in text
    assert "| `99` | `NOTHING_TO_DO` |" in text


def test_the_models_have_their_formula_and_their_parameters(pages):
    text = pages["reference/models.md"]
    names = set(Module.load("estimator_kit.models").table("MODELS"))
    assert names == set(re.findall(r"^## \w+ \{ #(\w+) \}", text, re.MULTILINE))
    assert "    logits = linear(wide) + pairs(fields) + DNN(deep)" in text
    assert "| `crosses` | integer, 1 or more | `2` |" in text
    assert "| `dimension` | integer, 1 or more | `32` |" in text
    shared = pages["reference/model_parameters.md"]
    assert "| `hidden_units` | list of integers, 1 or more, 1 items or more |" in shared
    assert "### cosine { #schedules-cosine }" in shared


def test_inherited_parameters_are_found():
    module, node = Module.load("estimator_kit.models").table("MODELS")["lstm"]
    fields = {field.name: field for field in fields_of(*params_of(module, node))}
    assert fields["pooling"].default == "last"
    assert fields["dropout"].type == "number, 0 or more, below 1"
    assert fields["learning_rate"].default == "0.05"


def test_a_parameter_without_a_meaning_is_an_error():
    node = ast.parse('class Params:\n    """Attributes:\n      a: text.\n    """\n    b: int = 1')
    fields = fields_of(Module.load("estimator_kit.models.din"), node.body[0])
    with pytest.raises(ValueError) as error:
        models.fields_table(fields, "the model x")
    assert str(error.value) == (
        "the docstring of the model x does not say what b means. Add an entry to its section "
        "Attributes."
    )


def test_a_field_of_a_spec_without_a_meaning_is_an_error():
    class Speed(pydantic.BaseModel):
        """A speed."""

        limit: int = pydantic.Field(description="The largest speed.")
        unit: str = "km"

    with pytest.raises(ValueError) as error:
        entries.fields_table(Speed, examples=[{"limit": 1, "unit": "km"}], links={})
    assert str(error.value) == (
        f"{__name__}.Speed: the field 'unit' has no meaning. Give it a description, or an entry in "
        "the section Attributes of the docstring."
    )


def test_the_api_has_every_public_name(pages):
    import estimator_kit
    from estimator_kit import client

    assert sorted(api.public_names()) == estimator_kit.__all__
    assert api.client_names() == sorted(client.__all__)
    assert "\n::: estimator_kit.model.model_fn.ModelFn\n" in pages["reference/python.md"]


def test_the_differences_of_serving_are_those_of_the_guide(pages):
    text = pages["reference/http.md"]
    assert "| `PredictionService` | `MultiInference` | no (UNIMPLEMENTED) |" in text
    assert "| `NOT_FOUND` | 404 " in text
    assert serving.differences(
        "text\n\n| a | TensorFlow Serving |\n| - | - |\n| x | y |\n\nmore"
    ) == ("| a | TensorFlow Serving |\n| - | - |\n| x | y |")
    with pytest.raises(ValueError, match="has no table whose last column is"):
        serving.differences("text")


def test_files(pages):
    assert model_dir_files.meaning_of("export/best/1767225600/saved_model.pb")
    assert model_dir_files.meaning_of("model.ckpt-100.data-00000-of-00001") == "A checkpoint."
    assert model_dir_files.meaning_of("saved_model.pb") is None
    assert "| `eval_history.jsonl` |" in pages["reference/files.md"]
    assert program.files_page() == pages["reference/files.md"]


def test_docstrings():
    text = Docstring.parse(
        """First
        line.

        Body with <u, v> and `<code>`.

            formula * 2

        Attributes:
          a, b: text
            and more.
          c: x: y.

        Raises:
          ValueError: no.
        """
    )
    assert text.summary == "First line."
    assert text.attributes == {"a": "text and more.", "b": "text and more.", "c": "x: y."}
    assert text.markdown() == ("First line.\n\nBody with \\<u, v> and `<code>`.\n\n    formula * 2")
    with pytest.raises(ValueError, match="expected `name: text` in a section Attributes"):
        Docstring.parse("X.\n\nAttributes:\n  nothing")


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("a * b", r"a \* b"),
        ("snake_case and _private", r"snake_case and \_private"),
        ("1. one", r"1\. one"),
        ("`x_` [rows]", r"`x_` \[rows]"),
    ],
)
def test_escaped_text(text, markdown):
    assert escaped(text) == markdown


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 2**62}, "integer, 1 or more"),
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 0.1}, "number, above 0, at most 0.1"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string"),
        ({"enum": ["a", "b"]}, "`a` or `b`"),
        ({"type": "array", "items": {"type": "string"}}, "list of strings"),
        ({"$ref": "#/$defs/Clip"}, "[clip]"),
        ({"const": True}, "`true`"),
        (
            {"type": "object", "additionalProperties": {"type": "number"}},
            "mapping from names to numbers",
        ),
    ],
)
def test_types_in_words(schema, text):
    assert type_text(schema, {"Clip": "[clip]"}) == text


def test_a_table_keeps_its_bars():
    assert table(("a",), [("x | y",)]) == "| a |\n| --- |\n| x \\| y |"


def test_links_of_a_page_that_is_moved():
    text = "[a](docs/guides/data.md#x) [b](README.md) [c](https://x.org) [d](docs/guides)"
    moved = docs_hook.moved_links(text, folder="", to="docs")
    assert moved == (
        "[a](guides/data.md#x) [b](../README.md) [c](https://x.org) [d](guides/index.md)"
    )
    assert docs_hook.without_outer_links(moved, "docs") == (
        "[a](guides/data.md#x) b [c](https://x.org) [d](guides/index.md)"
    )
    assert docs_hook.without_outer_links("[x](../no_such_file)", "docs") == "[x](../no_such_file)"


def test_the_environment_of_make_docs_has_the_extra_docs():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    packages = re.search(r"^DOCS_PACKAGES := (.*)$", makefile, re.MULTILINE)[1].split()
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extra = re.search(r"^docs = \[(.*)\]", project, re.MULTILINE)[1]
    names = re.findall(r'"([\w-]+)', extra)
    assert names
    assert set(names) < set(packages)
    for constraints in (ROOT / "constraints").glob("tf*.txt"):
        pinned = constraints.read_text(encoding="utf-8")
        for name in names:
            assert f"\n{name}==" in pinned, (constraints.name, name)
