"""What the scores of an evaluation mean: which rows are evaluated, and by which formulas.

The exporters `best` and `best_k`, early stopping and "nothing to do" compare scores of this start
with scores of earlier ones. With other evaluation files or another `loss_weight`, that says
nothing. So a digest of the meaning is stored with each score, as `scores` in `eval_history.jsonl`,
`best.json`, `best_k.json` and `result.json`, and only scores with the same digest are compared.

    meaning = ScoresMeaning.of(config, spec, model, files, left_out)
    meaning.is_of("9f86d081884c7d65")

Files count by their sizes and samples of their content (`samples_of`). Their names and times do
not, because a machine may fetch its data again. Of the formulas, what counts are the settings,
fields of the spec and parameters of the model that change the metrics of given answers. Which
metric is watched does not count, and neither does the code of a model.

`eval_meaning.json` has the meaning of the latest evaluation, so that a start can say what changed.
A directory of an earlier version has only `flags.txt`, so files count by their spelling at its
first start. What only one version of the kit stores contradicts nothing.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from pydantic import JsonValue

from estimator_kit.checkpoints import run_record
from estimator_kit.config.areas.data import Data
from estimator_kit.config.areas.reading import Reading
from estimator_kit.config.modes import Trained, counted
from estimator_kit.model.model_fn import ModelFn
from estimator_kit.model.model_params import changes_of
from feature_specs import meaning
from feature_specs.files import documents, file_systems
from feature_specs.meaning import differences, entry_of
from feature_specs.spec import FeatureSpec
from input_pipelines.record_files.file_bytes import samples_of
from input_pipelines.record_files.sharding import sizes_of

# It chooses between scores, and changes none.
_CHOOSING = {"best_metric"}


class _Kept(documents.Document):
    """`eval_meaning.json`."""

    scores: str
    meaning: dict[str, JsonValue]
    unmarked: Optional[str] = None


@dataclasses.dataclass(frozen=True)
class ScoresMeaning:
    """What the scores of this start mean.

    Attributes:
      digest: stored with each score of this start, 16 hex digits.
      unmarked: the digest that counts for scores without one. An earlier version of the kit stored
        none.
      values: what counts, by place, such as `objectives.click.loss_weight`.
      changes: how it differs from the latest evaluation of the directory, a sentence for each
        place. Without `eval_meaning.json`, these are the settings that `flags.txt` has otherwise.
    """

    digest: str
    unmarked: str
    values: Mapping[str, Any]
    changes: Sequence[str] = ()

    @classmethod
    def of(
        cls,
        command: Trained,
        spec: FeatureSpec,
        model: ModelFn,
        files: Sequence[str],
        left_out: Mapping[str, str],
    ) -> ScoresMeaning:
        """The meaning of the scores of a start, compared with the one in its model directory.

        Args:
          config, spec, model: the settings, the feature spec and the model.
          files: the files that are evaluated. The rows of --input_fn are in a temporary one.
          left_out: for each damaged file, a digest of the records that are not read.

        Raises:
          ConfigError: `eval_meaning.json` is damaged.
        """
        names = _counted_settings(command.data, command.reading, spec, model)
        # Before `eval_meaning.json`: a chief writes that first, and then `flags.txt`.
        spelled = run_record.changed_flags(command, {*names, "eval_files", "eval_days"})
        values = {
            **{f"--{name}": getattr(command.settings, name) for name in sorted(names)},
            **_of_rows(command.data, files, left_out),
            **({"items of the catalogue": model.catalogue.digest} if model.catalogue else {}),
            **{
                f"--model_params {name}": value
                for name, value in model.params.model_dump(mode="json").items()
                if "scores" in changes_of(type(model.params), name)
            },
            **spec.meaning(meaning.SCORES.aspects),
            # The defaults of features decide which rows a filter keeps.
            **spec.meaning(("values",), ("features", "labels", "filter")),
        }
        values = json.loads(json.dumps(values, sort_keys=True))  # As it will be read.
        kept = _Kept.load(_path(command.run.model_dir))
        if kept is None:
            digest = _digest(values)
            return cls(digest, _digest(spelled) if spelled else digest, values, spelled)
        changes = _changes(kept.meaning, values)
        unmarked = kept.unmarked or kept.scores
        return cls(_digest(values) if changes else kept.scores, unmarked, values, changes)

    def is_of(self, scores: Optional[str]) -> bool:
        """Whether scores that are stored with this digest, or without one, mean the same."""
        return (scores or self.unmarked) == self.digest

    def of_rows(self, files: Sequence[str], left_out: Mapping[str, str]) -> str:
        """The digest of scores that differ from these only in the files that are evaluated."""
        return _digest([self.digest, _content(files), sorted(left_out.values())])

    def begin(self, model_dir: str) -> None:
        """Writes `eval_meaning.json` if it does not exist, before `flags.txt` is replaced."""
        if not file_systems.exists(_path(model_dir)):
            self.write(model_dir)

    def write(self, model_dir: str) -> None:
        """Writes `eval_meaning.json`, before the first score that means this is stored."""
        kept = _Kept(scores=self.digest, unmarked=self.unmarked, meaning=dict(self.values))
        kept.save(_path(model_dir))


def _counted_settings(data: Data, reading: Reading, spec: FeatureSpec, model: ModelFn) -> set[str]:
    names = {*counted("train_and_evaluate", meaning.SCORES.aspects)} - _CHOOSING
    if reading.eval_steps is None and not _sees_batches(spec, model):
        names -= {"eval_batch_size"}  # With --eval_steps it decides how many rows are evaluated.
    return names - {"input_version"} if data.eval_files else names


def _of_rows(data: Data, files: Sequence[str], left_out: Mapping[str, str]) -> dict[str, Any]:
    sizes = sizes_of(files)
    rows: dict[str, Any]
    if data.eval_files:
        rows = {
            "files of --eval_files": {
                "files": len(files), "bytes": sum(sizes.values()), "content": _content(files)
            }
        }  # fmt: skip
    else:
        # Each call may give the same rows in another order.
        rows = {"rows of --input_fn": {"bytes": sum(sizes.values())}}
    return {**rows, "records left out": sorted(left_out.values())}


def _content(files: Sequence[str]) -> str:
    sizes = sizes_of(files)
    samples = samples_of(sizes)
    return _digest(sorted([sizes[path], samples[path]] for path in files))


def _sees_batches(spec: FeatureSpec, model: ModelFn) -> bool:
    """Whether a metric may depend on which rows share a batch.

    The head `ranking` compares the rows of a group that share one, and what a model computes itself
    may compare any rows, as the loss of `two_tower` does. All other metrics are of single rows.
    """
    own = ("example_losses", "metrics")
    overrides = any(getattr(type(model), name) is not getattr(ModelFn, name) for name in own)
    return overrides or any(entry.ranks for entry in spec.objectives.values())


def _changes(kept: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """A sentence for each difference.

    A field of an entry that only one side has is new in a version of the kit, or was removed there.
    """
    both = {*map(entry_of, kept)} & {*map(entry_of, now)}
    alone = kept.keys() ^ now.keys()
    unknown = {place for place in alone if entry_of(place) in {place, *both}}
    sides = [{p: value for p, value in side.items() if p not in unknown} for side in (kept, now)]
    return differences(*sides)


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _path(model_dir: str) -> str:
    return os.path.join(model_dir, "eval_meaning.json")
