"""yaml_reader: YAML 1.2 scalars, the line of every path, and rejected documents."""

from __future__ import annotations

import json
import math
import textwrap

import hypothesis
import pytest
import yaml
from hypothesis import strategies as st

from feature_specs import SpecError
from feature_specs.parser import parser
from feature_specs.parser.yaml_reader import read_text

pytestmark = pytest.mark.no_tensorflow


def read(text):
    return read_text(text, "spec.yaml")[0]


def problems_of(text):
    """Each problem as `line: path: message`, as the error prints it."""
    with pytest.raises(SpecError) as error:
        read(text)
    head, *lines = str(error.value).split("\n  ")
    noun = "1 problem" if len(lines) == 1 else f"{len(lines)} problems"
    assert head == f"spec.yaml: {noun} in the feature spec"
    return [line.removeprefix("spec.yaml:").strip() for line in lines]


def short(value):
    """An id for a test that fits on a line."""
    return ascii(value)[:50]


# --- Scalars -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "no", "yes", "on", "off", "n", "y", "tRue", "nULL", "inf", "nan", "infinity", ".iNf", "1e",
        "1:30", "1:30:00", "2024-01-01", "2024-01-01 10:00:00", "1_000", "0x1F", "0o17", "0b11",
        "-", "--", "-1-", "1.2.3", "<<", "=", "1,000", "a#b", "gs://bucket/path", "ü", "日本",
    ],
)  # fmt: skip
def test_plain_scalars_that_stay_strings(text):
    assert read(f"a: {text}" if text != "-" else "a: '-'") == {"a": text}


@pytest.mark.parametrize(
    "text, expected",
    [
        ("~", None), ("null", None), ("Null", None), ("NULL", None), ("", None),
        ("true", True), ("True", True), ("FALSE", False), ("false", False),
        ("0", 0), ("-0", 0), ("+1", 1), ("-17", -17), ("010", 10), ("9223372036854775808", 2**63),
        ("1e-3", 0.001), ("1E3", 1000.0), ("1e+5", 100000.0), ("1.", 1.0), (".5", 0.5),
        ("-.5", -0.5), ("+1.5e3", 1500.0), ("-0.0", -0.0), ("1e400", math.inf),
        (".inf", math.inf), ("+.Inf", math.inf), ("-.INF", -math.inf),
        ("'no'", "no"), ('"1"', "1"), ("'null'", "null"), ("''", ""), ('"\\u00fc"', "ü"),
        ("|\n  x\n  y\n", "x\ny\n"), ("b # a comment", "b"), ("[]", []), ("{}", {}),
    ],
)  # fmt: skip
def test_scalars_and_their_types(text, expected):
    value = read(f"a: {text}")["a"]
    assert value == expected
    assert type(value) is type(expected)
    if isinstance(value, float):
        assert math.copysign(1, value) == math.copysign(1, expected)


@pytest.mark.parametrize("text", [".nan", ".NaN", ".NAN"])
def test_not_a_number(text):
    assert math.isnan(read(f"a: {text}")["a"])


@pytest.mark.parametrize("text", ["", "\n", "# a comment alone\n", "---\n"])
def test_a_document_without_content_is_none(text):
    assert read(text) is None


# --- Structure and lines -------------------------------------------------------------------------


def test_the_line_of_every_path():
    text = textwrap.dedent("""\
        # a comment
        features:
          age: {dtype: int64,
                default: -1}

          city:
            dtype: string
        groups:
          wide: [age,
                 city]
        """)
    values, lines = read_text(text, "spec.yaml")
    assert values == {
        "features": {"age": {"dtype": "int64", "default": -1}, "city": {"dtype": "string"}},
        "groups": {"wide": ["age", "city"]},
    }
    assert lines == {
        (): 2,
        ("features",): 2,
        ("features", "age"): 3,
        ("features", "age", "dtype"): 3,
        ("features", "age", "default"): 4,
        ("features", "city"): 6,
        ("features", "city", "dtype"): 7,
        ("groups",): 8,
        ("groups", "wide"): 9,
        ("groups", "wide", 0): 9,
        ("groups", "wide", 1): 10,
    }


def test_a_byte_order_mark_is_no_part_of_the_first_key():
    assert read("\ufeffa: 1") == {"a": 1}


def test_keys_keep_their_order():
    assert list(read("z: 1\na: 2\nm: 3")) == ["z", "a", "m"]


# --- Refusals ------------------------------------------------------------------------------------

# Reported with only the line, before any value is made.
ALIAS = "the top level: an alias (*name) is not supported. Write the value out."


def tag(name):
    return f"the top level: the tag {name!r} is not supported. Remove it."


def core_tag(name):
    return tag(f"tag:yaml.org,2002:{name}")


@pytest.mark.parametrize(
    "text, expected",
    [
        # Keys.
        ("a: 1\na: 2", "2: a: the key is listed twice, first on line 1. Keep one."),
        ("{a: 1, a: 2}", "1: a: the key is listed twice, first on line 1. Keep one."),
        ("x:\n  b: 1\n  c: 2\n  b: 3", "4: x.b: the key is listed twice, first on line 2. Keep "
                                       "one."),
        ("- {b: 1}\n- b: 1\n  b: 2", "3: [1].b: the key is listed twice, first on line 2. Keep "
                                     "one."),
        ("1: a", "1: the top level: the key must be a string, got 1. Put it in quotes."),
        ("x:\n  true: a", "2: x: the key must be a string, got True. Put it in quotes."),
        ("null: a", "1: the top level: the key must be a string, got None. Put it in quotes."),
        ("1.5: a", "1: the top level: the key must be a string, got 1.5. Put it in quotes."),
        ("x: {[a]: 1}", "1: x: a list cannot be a key. Write a string."),
        ("x:\n  {a: b}: 1", "2: x: a mapping cannot be a key. Write a string."),
        (
            "a: {b: 1}\nc:\n  <<: {d: 1}",
            "3: c: a merge key (<<) is not supported. Write the keys out.",
        ),
        # Aliases and tags.
        ("a: &x 1\nb: *x", f"2: {ALIAS}"),
        ("a: &x [*x]", f"1: {ALIAS}"),
        ("a: 1\nb: *nope", f"2: {ALIAS}"),
        ("&k a: 1\nb: {*k : 2}", f"2: {ALIAS}"),
        ("a: !thing 1", f"1: {tag('!thing')}"),
        ("a:\n- !thing {b: 1}", f"2: {tag('!thing')}"),
        ("!thing a: 1", f"1: {tag('!thing')}"),
        ("? !!int x\n: 1", f"1: {core_tag('int')}"),
        ("a: !!int '3'", f"1: {core_tag('int')}"),
        ("a: !!bool no", f"1: {core_tag('bool')}"),
        ("a: !!null x", f"1: {core_tag('null')}"),
        ("a: !!str [1]", f"1: {core_tag('str')}"),
        ("!!set {a}", f"1: {core_tag('set')}"),
        ("a: !!binary aGk=", f"1: {core_tag('binary')}"),
        ("a: !!timestamp 2001-01-01", f"1: {core_tag('timestamp')}"),
        (
            "a: !!python/object/apply:os.system [ls]",
            f"1: {core_tag('python/object/apply:os.system')}",
        ),
        # Text that is not YAML.
        (
            "b: 1\na: [1, 2",
            "2: the top level: not YAML: while parsing a flow sequence, "
            "expected ',' or ']', but got '<stream end>'",
        ),
        ("x: 1\na: b: c", "2: the top level: not YAML: mapping values are not allowed here"),
        (
            "a:\n\tb: 1",
            "2: the top level: not YAML: while scanning for the next token, "
            "found character '\\t' that cannot start any token. Indent with spaces, not with tabs.",
        ),
        (
            "a: 1\n--- \nb: 2",
            "2: the top level: not YAML: expected a single document in the stream, but found "
            "another document",
        ),
        (
            "a: 1\nb: 'x\nc: 2\n",
            "4: the top level: not YAML: while scanning a quoted scalar"
            ", found unexpected end of stream",
        ),
        (
            'a: "\\ud800"',
            "1: a: cannot be read as its type: the string contains half of a surrogate pair",
        ),
        (
            '"\\ud800": 1',
            "1: the top level: cannot be read as its type: the string contains half of a "
            "surrogate pair",
        ),
    ],
    ids=short,
)  # fmt: skip
def test_what_is_refused(text, expected):
    assert problems_of(text) == [expected]


def test_all_problems_come_at_once_in_line_order():
    text = "a: 1\nb: 2\nc: {<<: {d: 1}}\nb: 3\n5: x\n"
    assert problems_of(text) == [
        "3: c: a merge key (<<) is not supported. Write the keys out.",
        "4: b: the key is listed twice, first on line 2. Keep one.",
        "5: the top level: the key must be a string, got 5. Put it in quotes.",
    ]


def test_all_aliases_and_tags_come_at_once_before_the_rest():
    text = "a: &x !thing 1\nb: *x\na: 3\nc: !!int 4\n"
    assert problems_of(text) == [
        f"1: {tag('!thing')}",
        f"2: {ALIAS}",
        f"4: {core_tag('int')}",
    ]


def test_an_endless_integer_as_a_key_is_refused():
    [problem] = problems_of("9" * 5000 + ": 1")
    assert problem.startswith("1: the top level: ")


def test_an_endless_integer_is_refused():
    [problem] = problems_of("a: 1\nb: " + "9" * 5000)
    # The rest of the message comes from Python and differs between versions.
    assert problem.startswith("2: b: cannot be read as its type: Exceeds the limit (4300")


def test_each_repetition_of_a_key_names_the_first_line():
    assert problems_of("a: 1\na: 2\na: 3") == [
        "2: a: the key is listed twice, first on line 1. Keep one.",
        "3: a: the key is listed twice, first on line 1. Keep one.",
    ]


def test_aliases_cannot_make_a_document_grow():
    laughs = ["a0: &a0 [x, x]"]
    laughs += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 40)]
    assert len(problems_of("\n".join(laughs))) == 390


@pytest.mark.parametrize("depth, is_fine", [(50, True), (51, False), (300, False)])
def test_fifty_levels_are_the_deepest(depth, is_fine):
    text = "{a: " * depth + "1" + "}" * depth
    if is_fine:
        assert read(text)["a"]
    else:
        place = "a.a.a" if depth == 51 else "the top level"
        assert problems_of(text) == [f"1: {place}: nested more than 50 levels deep"]


@pytest.mark.parametrize(
    "text",
    ["[" * 900 + "]" * 900, "- " * 5_000 + "1", "[\n" * 50_000, "[" * 50_000 + "]" * 50_000],
    ids=short,
)
def test_nesting_is_refused_before_all_of_it_is_read(text, monkeypatch):
    composed = []
    original = yaml.SafeLoader.get_event
    monkeypatch.setattr(
        yaml.SafeLoader, "get_event", lambda self: composed.append(1) or original(self)
    )
    line = 53 if "\n" in text else 1
    assert problems_of(text) == [f"{line}: the top level: nested more than 50 levels deep"]
    assert 52 < len(composed) < 60


def test_levels_side_by_side_are_not_added_up():
    assert read("[" + "[[1]]," * 500 + "]") == [[[1]]] * 500


def test_a_long_document_is_refused_before_the_parser(monkeypatch, tmp_path):
    monkeypatch.setattr(yaml, "parse", None)
    remedy = (
        "expected at most 2,097,152. Write long lists, such as vocabularies, into separate files."
    )
    text = "#" * (2 * 2**20 + 1)
    assert problems_of(text) == [f"the top level: got 2,097,153 characters, {remedy}"]
    path = tmp_path / "spec.yaml"
    path.write_text("é" + "#" * (10 * 2**20), encoding="utf-8")
    with pytest.raises(SpecError) as error:
        parser.load(path)
    assert str(error.value) == (
        f"{path}: 1 problem in the feature spec\n"
        f"  {path}: the top level: got 10,485,762 bytes, {remedy}"
    )


# --- JSON ----------------------------------------------------------------------------------------

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | text | st.floats(allow_nan=False, width=64).filter(
        math.isfinite
    ),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
settings = hypothesis.settings(max_examples=60, deadline=None, derandomize=True)


@settings
@hypothesis.given(json_values, st.sampled_from([None, 2]))
def test_json_documents_read_as_they_were_written(value, indent):
    assert read(json.dumps(value, indent=indent)) == value


@settings
@hypothesis.given(json_values)
def test_every_json_path_has_its_line(value):
    document = {"top": value}
    lines = read_text(json.dumps(document, indent=2), "x.json")[1]
    count = 0
    waiting = [((), document)]
    while waiting:
        path, part = waiting.pop()
        count += 1
        assert lines[path] >= 1
        if isinstance(part, dict):
            waiting += [((*path, key), item) for key, item in part.items()]
        elif isinstance(part, list):
            waiting += [((*path, i), item) for i, item in enumerate(part)]
    assert len(lines) == count


@pytest.mark.parametrize(
    "document",
    [
        '{"a": "x/y", "b": "\\/"}',
        '{"a" : [1 , 2]}\r\n',
        json.dumps({"a": "日本\u2028ü"}, ensure_ascii=False),
        pytest.param(json.dumps({"a": "😀"})),
        pytest.param(json.dumps({"<<": 1})),
    ],
    ids=short,
)
def test_json_that_yaml_finds_hard(document):
    assert read(document) == json.loads(document)
