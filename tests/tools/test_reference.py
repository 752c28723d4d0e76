"""tools/reference and docs/reference: they leave out nothing. MkDocs itself is not needed here."""

from __future__ import annotations

import inspect
import re

import pydantic
import pytest

import estimator_kit
from estimator_kit import client, exit_codes
from estimator_kit.config.areas import AllSettings
from estimator_kit.config.modes import MODES
from estimator_kit.models import MODELS
from estimator_kit.serving import errors, grpc_server
from feature_specs import meaning
from feature_specs.heads import HEADS, METRICS
from feature_specs.kinds import COLUMN_KINDS
from feature_specs.meaning import ASPECTS
from tests.conftest import ROOT
from tools import docs_hook
from tools.reference import spec, text
from tools.reference.pages import PAGES

WRITTEN = ROOT / "docs" / "reference"
ENTRIES = {model.__name__: model for models in spec.ENTRIES.values() for model in models.values()}


@pytest.fixture(scope="module")
def pages():
    return {path: write() for path, write in PAGES.items()}


def test_every_page_has_a_title_and_is_in_the_navigation(pages):
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    written = {f"reference/{path.name}": path.read_text("utf-8") for path in WRITTEN.glob("*.md")}
    assert not written.keys() & pages.keys()
    for path, page in {**written, **pages}.items():
        assert page.startswith("# "), path
        assert f": {path}\n" in navigation, path


def test_links_inside_the_reference_have_a_target(pages):
    anchors = {
        path: {*re.findall(r"\{ #([\w.-]+) \}", page), *re.findall(r'<span id="([\w.-]+)">', page)}
        for path, page in pages.items()
    }
    for path, page in pages.items():
        for target, anchor in re.findall(r"\]\((\w*(?:\.md)?)#([\w.-]+)\)", page):
            assert anchor in anchors[f"reference/{target}" if target else path], (path, anchor)


def test_the_spec_has_every_kind_head_loss_and_metric(pages):
    for kind in COLUMN_KINDS:
        assert f"## {kind} {{ #{kind} }}" in pages["reference/columns.md"]
    heads = pages["reference/objectives.md"]
    for head in HEADS:
        assert f"## {head} {{ #{head} }}" in heads
    assert "### huber { #loss-huber }" in heads
    for name in METRICS:
        assert f'<span id="metric-{name}"></span>' in heads
    for name in ("raw", "image", "Gate", "Condition", "Thresholds"):
        assert f"## {name} {{ #{name} }}" in pages["reference/spec.md"]
    assert "| [`features`](#features) | the entries by name. |" in pages["reference/spec.md"]


@pytest.mark.parametrize("model", ENTRIES.values(), ids=ENTRIES)
def test_the_examples_of_an_entry_use_every_field(model):
    written, inside = spec.examples()[model.__name__], spec.options(model)
    for entry in written:
        # What the parser takes from another entry.
        taken = {"dimension": 1} if "table" in entry else {"rows": 1} if "ids_of" in entry else {}
        model.model_validate({**taken, **entry})
    used = {key for entry in written for key in (next(iter(entry.values())) if inside else entry)}
    fields = (inside or model).model_fields
    assert used == {field.alias or name for name, field in fields.items()}


def test_every_example_is_of_an_entry():
    assert spec.examples().keys() == ENTRIES.keys()


def test_the_page_of_meanings_has_every_aspect_artifact_and_value(pages):
    page = pages["how_it_works/meaning.md"]
    picture = (ROOT / "docs/images/meaning.svg").read_text(encoding="utf-8")
    for aspect in ASPECTS:
        assert f"\n| `{aspect}` | " in page and f">{aspect}</text>" in picture, aspect
    for row in meaning.ALL:
        assert f"\n| {row.artifact} | {', '.join(row.aspects)} | {row.also} | " in page
    values = {*AllSettings.model_fields, "columns.identity.size", "objectives.binary.loss_weight"}
    assert {*re.findall(r"\n\| `(?:--)?([\w.]+)` \| ", page)} >= values
    for owner, name, aspects in (("`dcn`", "rank", "weights"), ("`two_tower`", "item_id",
                                 "training, scores"), ("all models", "forward_features", "outputs"),
                                 ("`wide_deep`", "wide_group", "nothing (named)")):  # fmt: skip
        assert f"\n| `--model_params={name}` of {owner} | {aspects} |\n" in page


def test_flags_by_mode(pages):
    page = pages["reference/flags.md"]
    for mode in MODES:
        assert f"### --mode={mode} {{ #mode-{mode} }}" in page
    for name in AllSettings.model_fields:
        assert page.count(f'<span id="flag-{name}"></span>') == 1
    assert (
        '| <span id="flag-max_steps"></span>`--max_steps` | integer, 1 or more | none | '
    ) in page
    rollback = page.partition("{ #mode-rollback }")[2].partition("###")[0]
    assert "[`--model_dir`](#flag-model_dir)" in rollback
    assert "--batch_size" not in rollback


def test_exit_statuses(pages):
    page = pages["reference/exit_statuses.md"]
    for status in exit_codes.MEANING:
        assert f"\n| `{status}` | `" in page
    assert "| `99` | `NOTHING_TO_DO` |" in page


def test_the_models_have_their_formula_and_their_parameters(pages):
    page = pages["reference/models.md"]
    assert {*MODELS} == set(re.findall(r"^## \w+ \{ #(\w+) \}", page, re.MULTILINE))
    assert "    logits = linear(wide) + pairs(fields) + DNN(deep)" in page
    assert "| `crosses` | integer, 1 or more | `2` |" in page
    assert "| `dimension` | integer, 1 or more | `32` |" in page
    # A shared parameter with another default, and one with another meaning.
    wide_deep = page.partition("## wide_deep {")[2]
    assert (
        "| `learning_rate` | number, above 0 | none | the learning rate of the DNN. By default it "
        "is the rate of its optimizer. |" in wide_deep
    )
    assert "| `optimizer` | string or mapping | `adagrad` | the optimizer of the DNN." in wide_deep
    shared = pages["reference/model_parameters.md"]
    assert "| `optimizer` | string or mapping | `lazy_adam` |" in shared
    assert "| `hidden_units` | list of (integer, 1 or more), 1 items or more |" in shared
    assert "### cosine { #schedules-cosine }" in shared
    assert "Gradient Surgery for Multi-Task Learning" in " ".join(shared.split())


def test_a_field_without_a_meaning_is_an_error():
    class Speed(pydantic.BaseModel):
        """A speed."""

        limit: int = pydantic.Field(description="The largest speed.")
        unit: str = "km"

    with pytest.raises(ValueError) as error:
        text.fields_table(Speed)
    assert str(error.value) == (
        f"{__name__}.{Speed.__qualname__}: the field 'unit' has no meaning. Give it a description, "
        "or an entry in the section Attributes of the docstring."
    )


def test_the_meaning_of_a_field_is_from_the_nearest_class():
    class Base(pydantic.BaseModel):
        """Attributes:
        a, b: text
          and more.
        c: x: y.
        """

        a: int = pydantic.Field(1, description="Described.")
        b: int = 1
        c: int = 1

    class Inside(Base):
        """First line.

        Attributes:
          c: z.

        Raises:
          ValueError: no.
        """

    found = text.meanings(Inside)
    assert [" ".join(found[n].split()) for n in "abc"] == ["Described.", "text and more.", "z."]
    assert (text.about(Inside), text.about(Base)) == ("First line.", "")


def test_the_written_pages_have_every_public_name_method_and_code():
    named = re.findall(r"^::: (\S+)$", (WRITTEN / "python.md").read_text("utf-8"), re.MULTILINE)
    homes = {"feature_specs.load": "load_spec", "feature_specs.parse": "parse_spec"}
    names = [homes.get(name) or name.removeprefix("estimator_kit.") for name in named]
    assert sorted(names) == estimator_kit.__all__
    assert client.__all__ == sorted(client.__all__)  # mkdocstrings shows these.
    http = (WRITTEN / "http.md").read_text("utf-8")
    for service in (grpc_server.PredictionService, grpc_server.ModelService):
        for name, method in inspect.getmembers(service, inspect.isfunction):
            if name[0].isupper():
                refused = "UNIMPLEMENTED" in inspect.getsource(method)
                answer = "no (UNIMPLEMENTED)" if refused else "yes"
                assert f"| `{service.__name__}` | `{name}` | {answer} |\n" in http
    for code, status in errors.HTTP.items():
        assert f"| `{code}` | {status} |\n" in http


@pytest.mark.parametrize(
    ("prose", "markdown"),
    [
        ("a * b", r"a \* b"),
        ("snake_case and _private", r"snake_case and \_private"),
        ("`x_` [rows]", r"`x_` \[rows]"),
        ("<u, v> and `<code>`\n\n    a * b", "&lt;u, v> and `<code>`\n\n    a * b"),
    ],
)
def test_escaped_text(prose, markdown):
    assert text.escaped(prose) == markdown


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 2**62}, "integer, 1 or more"),
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 0.1}, "number, above 0, at most 0.1"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string"),
        ({"enum": ["a", "b"]}, "`a`, `b`"),
        ({"type": "array", "items": {"type": "string"}}, "list of strings"),
        ({"$ref": "#/$defs/Clip"}, "[clip]"),
        ({"const": True}, "`true`"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "mapping of numbers"),
        ({"type": "object", "required": ["ndcg"]}, "`{ndcg: ...}`"),
    ],
)
def test_types_in_words(schema, words):
    assert text.type_text(schema, {"Clip": "[clip]"}) == words


def test_a_table_keeps_its_bars():
    assert text.table(("a",), ("x | y",)) == "| a |\n| --- |\n| x \\| y |"


def test_links_to_files_outside_the_site_are_plain_text():
    links = "[a](docs/guides/data.md#x) [b](README.md) [c](https://x.org) [d](docs/guides) [e](#x)"
    assert docs_hook.links_of_site(links, folder="") == (
        "[a](guides/data.md#x) b [c](https://x.org) [d](guides/index.md) [e](#x)"
    )
    inside = (
        "[x](../no_such_file) ![y](../a.png) [z](../README.md)\n\n```\n[z](../README.md)\n```\n"
    )
    assert docs_hook.links_of_site(inside, folder="docs", shown="docs") == (
        "[x](../no_such_file) ![y](../a.png) z\n\n```\n[z](../README.md)\n```\n"
    )


def test_the_packages_of_the_documentation_are_pinned():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    names = re.findall(r'"([\w-]+)', re.search(r"^docs = \[(.*)\]", project, re.MULTILINE)[1])
    assert names
    for constraints in (ROOT / "constraints").glob("tf*.txt"):
        pinned = constraints.read_text(encoding="utf-8")
        for name in names:
            assert f"\n{name}==" in pinned, (constraints.name, name)
