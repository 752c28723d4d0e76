"""Each digest that the code makes is compared where its file is read, or only names something.

The list of the functions that make digests is read from the code. The tables say for each one where
the comparison is, or what the digest names. `test_digests_of_exports` changes every file of an
export that has a digest, and reads it in every way.
"""

from __future__ import annotations

import ast
import re

import pytest

from tests.test_layering import MODULES, NAMES, module_of, tree_of

pytestmark = pytest.mark.no_tensorflow

# The function that makes a digest, and the comparisons: a function, and an expression in it.
COMPARED = {
    "estimator_kit.checkpoints.kept_files:_problems": {
        "estimator_kit.checkpoints.kept_files:_problems": "digest in expected",
    },
    "estimator_kit.checkpoints.scores_meaning:_digest": {
        "estimator_kit.checkpoints.scores_meaning:is_of":
            "(scores or self.unmarked) == self.digest",
        "feature_specs.meaning:differences": "was != is_now",
    },
    "estimator_kit.model.catalogue:digest": {
        "feature_specs.meaning:differences": "was != is_now",
    },
    "estimator_kit.checkpoints.run_record:_digests": {
        "estimator_kit.checkpoints.kept_files:_problems": "digest in expected",
    },
    "feature_specs.kinds.vocabulary:words_text": {
        "feature_specs.meaning:differences": "was != is_now",
    },
    "estimator_kit.config.code_digests:of_model": {
        "estimator_kit.tuning.definition:changes": "was != is_now",
        "estimator_kit.retraining.cycle:_folder": "window.identity == identity",
    },
    "estimator_kit.retraining.period_summaries:_digest": {
        "estimator_kit.retraining.period_summaries:_read": "digest != _digest(content)",
    },
    "estimator_kit.retraining.lineage:verdict_digest": {
        "estimator_kit.retraining.cycle:_forget_verdicts": "window.limits in (None, limits)",
    },
    "estimator_kit.retraining.lineage:code": {
        "estimator_kit.retraining.modes:compared": "code != kept.code",
    },
    "estimator_kit.retraining.lineage:identity": {
        "estimator_kit.retraining.cycle:_folder": "window.identity == identity",
    },
    "estimator_kit.retraining.window:_period_data": {
        "estimator_kit.retraining.window:_changes": "digests.get(p.name, p.digest) != p.digest",
    },
    "estimator_kit.scoring.export:_digest": {
        "feature_specs.files.jobs:check": "getattr(before, name) != getattr(plan, name)",
    },
    "estimator_kit.training.bad_data:_digest": {
        "estimator_kit.training.position:_changes": "sides[0].get(name) != sides[1].get(name)",
        "feature_specs.files.jobs:check": "getattr(before, name) != getattr(plan, name)",
    },
    "input_pipelines.prepare.analyze.folder:_digest": {
        "input_pipelines.prepare.analyze.folder:check":
            "_digest((folder / name).read_bytes()) not in listed[name]",
    },
    "feature_specs.files.file_systems:stamps": {
        "estimator_kit.tuning.definition:changes": "was != is_now",
        "estimator_kit.retraining.cycle:_folder": "window.identity == identity",
    },
    "feature_specs.files.shards:is_whole": {
        "feature_specs.files.shards:is_whole": "crc == self.crc32",
    },
    "feature_specs.files.shards:write": {
        "feature_specs.files.shards:is_whole": "crc == self.crc32",
    },
    "input_pipelines.own_code:of_packages": {
        "feature_specs.files.jobs:check": "before.code != plan.code",
        "estimator_kit.retraining.cycle:_folder": "window.identity == identity",
    },
    "input_pipelines.reading.own_rows:identity": {
        "estimator_kit.training.position:_changes": "sides[0].get(name) != sides[1].get(name)",
    },
    "input_pipelines.record_files.file_bytes:_sample": {
        "estimator_kit.training.position:_changes": "samples[path] != now.samples[path]",
        "feature_specs.meaning:differences": "was != is_now",
    },
    "input_pipelines.row_cache.folder:sha256_of": {
        "estimator_kit.exporters.saved_model:copy_saved_model": "expected.get(n) != copied.get(n)",
        "estimator_kit.retraining.facts:check_unchanged": "now != file.sha256",
        "estimator_kit.retraining.facts:_is_as_it_was":
            "self._digests.of(file.path) == file.sha256",
        "estimator_kit.retraining.modes:_check_unchanged":
            "digests.of(file.path) != file.sha256",
    },
}  # fmt: skip

# The function that makes a digest, and what the digest names. With other content, it is another
# name, so there is nothing to compare.
NAMES_OF = {
    "estimator_kit.commands.in_tables:_digest": "a folder with the records of tables",
    "estimator_kit.observing.tracking:_key": "a model directory, for the tracking service",
    "estimator_kit.retraining.facts:_place": "the file of facts about data",
    "estimator_kit.retraining.window:content": "a part of `identity`",
    "estimator_kit.tuning.definition:sampler": "the seed of a sampler",
    "feature_specs.spec:_sha256": "a spec, in versions.json, lineage.json and `identity`",
    "input_pipelines.prepare.analyze.summary:_positions": "a row, in a sum for equal columns",
    "input_pipelines.prepare.analyze.row_sample:_hashes": "a random number for a row",
    "input_pipelines.prepare.analyze.row_sample:text_hash": "a text",
    "input_pipelines.prepare.analyze.values:_short": "a long word",
    "input_pipelines.prepare.convert.split:number_of": "the side of a key",
    "input_pipelines.row_cache.folder:of_rows": "a part of `of_shard`",
    "input_pipelines.row_cache.folder:of_shard": "a cached shard",
}


def with_functions(tree):
    """(function, node) of each node in a function; the innermost one counts."""
    left = [("", tree)]
    while left:
        function, node = left.pop()
        for child in ast.iter_child_nodes(node):
            name = child.name if isinstance(child, ast.FunctionDef) else function
            left.append((name, child))
            yield name, child


def makes_a_digest(node):
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
        return False
    return node.value.id == "hashlib" or (node.value.id, node.attr) == ("zlib", "crc32")


def test_the_tables_have_every_function_that_makes_a_digest():
    found = {
        f"{module_of(path)}:{name}"
        for path in MODULES
        if re.search("hashlib|zlib", path.read_text(encoding="utf-8"))
        for name, node in with_functions(tree_of(path))
        if makes_a_digest(node)
    }
    assert found == {*COMPARED, *NAMES_OF}
    assert not {*COMPARED} & {*NAMES_OF}


@pytest.mark.parametrize("made", sorted(COMPARED))
def test_a_digest_is_compared(made):
    for place, expression in COMPARED[made].items():
        module, _, wanted = place.partition(":")
        compared = {
            ast.unparse(node)
            for name, node in with_functions(tree_of(NAMES[module]))
            if name == wanted and isinstance(node, ast.Compare)
        }
        assert expression in compared, place
