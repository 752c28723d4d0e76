"""What can be said of the pages in docs/guides without running them.

Each YAML block fits the JSON Schema of specs, each link leads to a page or a heading, the messages
of the troubleshooting page are in the code, and no page is too long to scan.
"""

from __future__ import annotations

import ast
import pathlib
import re
from collections.abc import Iterator

import jsonschema
import pytest
import yaml
from absl import flags

from estimator_kit.config.flags import define_flags
from estimator_kit.config.modes import settings_of
from estimator_kit.tuning import search_file
from feature_specs import json_schema

pytestmark = pytest.mark.no_tensorflow

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
GUIDES = sorted((DOCS / "guides").glob("*.md"))
NAVIGATION = (DOCS.parent / "mkdocs.yml").read_text("utf-8")
TUTORIALS = DOCS / "tutorials"  # `make docs` checks the links to these.

OTHER_PROGRAMS = re.compile(
    r"--(runner|temp_location|sdk_container_image|enable_grpc_healthcheck_service|logdir|python|steps)\b"
    r"|pip install|easy_rec|--tf1|load_retr"
)

# Most blocks are parts of a spec.
PART_OF_A_SPEC = jsonschema.Draft202012Validator({**json_schema.json_schema(), "required": []})

every_page = pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)


@every_page
def test_yaml_fits_the_schema_of_specs(page):
    for block in re.findall(r"^```yaml\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S):
        if block.startswith("# search.yaml\n"):
            search_file.parse(yaml.safe_load(block))
            continue
        PART_OF_A_SPEC.validate(yaml.safe_load(block))


@every_page
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        name, _, heading = target.partition("#")
        other = (page.parent / name).resolve() if name else page
        if re.match(r"https?:", target) or TUTORIALS in other.parents:
            continue
        if DOCS / "reference" in other.parents:  # Some of these pages are written from the code.
            assert f": reference/{other.name}\n" in NAVIGATION, target
            continue
        assert other.is_file(), target
        assert not heading or heading in headings(other), target


def headings(page: pathlib.Path) -> set[str]:
    """The anchors of a page's headings, as MkDocs makes them."""
    found = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.M)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())
            for title in found}  # fmt: skip


def test_the_messages_of_the_troubleshooting_page_are_in_the_code():
    page = (DOCS / "guides" / "troubleshooting.md").read_text("utf-8")
    code = " ".join("\n".join(texts_of_code()).split())
    quoted = [
        part.strip()
        for line in page.splitlines()
        if line.startswith("|")
        for quote in re.findall(r"`([^`]+)`", line.split("|")[1])
        for part in quote.split("...")
    ]
    assert [part for part in quoted if part not in code] == []


def texts_of_code() -> Iterator[str]:
    """Each string in the code; of an f-string, what is constant, with a NUL for each value."""
    for folder in ("estimator_kit", "feature_specs", "input_pipelines"):
        for path in (DOCS.parent / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.JoinedStr):
                    yield "".join(
                        str(value.value) if isinstance(value, ast.Constant) else "\0"
                        for value in node.values
                    )
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value


@every_page
def test_flags_exist(page):
    """Except in lines with flags of Beam, pip and other programs."""
    values = flags.FlagValues()
    define_flags(values)
    text = re.sub(r"--beam_options='[^']*'", "", page.read_text("utf-8"))
    lines = [line for line in text.splitlines() if not OTHER_PROGRAMS.search(line)]
    named = set(re.findall(r"(?<![\w-])--([a-z]\w*[a-z\d])(?!\w)", "\n".join(lines)))
    known = {*values, *(f"no{name}" for name in values), "flag", "flagfile", "help", "name"}
    assert sorted(named - known) == []


@every_page
def test_modes_read_the_flags_of_their_commands(page):
    blocks = re.findall(r"^```\w+\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)
    text = re.sub(r"--beam_options='[^']*'", "", "".join(blocks).replace("\\\n", " "))
    for mode, arguments in re.findall(r"^estimator-kit (\w+)(.*)$", text, re.M):
        named = set(re.findall(r"(?<=\s)'?--(\w+)", arguments))
        assert named <= {*settings_of(mode), "flagfile", "help"}, (mode, arguments)


@every_page
def test_a_page_is_short_enough_to_scan(page):
    text = re.sub(r"<!-- simulation -->.*<!-- end of simulation -->", "", page.read_text("utf-8"),
                  flags=re.S)  # fmt: skip
    assert len(text.split()) <= 1500
