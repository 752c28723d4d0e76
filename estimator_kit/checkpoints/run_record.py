"""The run record: stores in the model directory what a run was made from, and compares it later.

    model_dir/flags.txt             all flags with their final values, as a flagfile
    model_dir/versions.json         the versions of Python and of packages that affect the result
    model_dir/model_params.json     all parameters of the model, defaults included
    model_dir/feature_spec/         spec.json and its vocabulary files, for `feature_specs.load`
    model_dir/feature_spec/places.json  what owns each row and column of a kernel

A changed spec can fit a checkpoint's shapes and still mean something else: for example, a
vocabulary in another order or a new normalizer. So a start that finds a checkpoint compares its
spec with the stored spec. An activation, the heads of an attention or a temperature do not show in
the shapes of variables, either: the checkpoint fits, and the model answers otherwise. So parameters
that change the logits of given variables must be as they were (`feature_specs.meaning`).
All others may change. The defaults are stored, because a later version of a model can have other
defaults. A directory without `model_params.json` has `flags.txt`, completed with today's defaults.
What the directory does not say contradicts nothing.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
import platform
import tempfile
from collections.abc import Collection
from importlib import metadata
from typing import Any, Optional

import pydantic
from pydantic import JsonValue

from estimator_kit.checkpoints import kept_files
from estimator_kit.checkpoints.warm_start import place_moves
from estimator_kit.checkpoints.warm_start.place_moves import PlacesRecord
from estimator_kit.config.flags import resolved_flags, values_in
from estimator_kit.config.modes import Train, Trained, counted
from estimator_kit.errors import CheckpointError, ConfigError
from estimator_kit.model.model_fn import ModelFn
from estimator_kit.model.model_params import ModelParams, changes_of
from estimator_kit.model.places.places import AxisPlaces
from feature_specs import meaning
from feature_specs.errors import SpecError
from feature_specs.files import documents, file_systems
from feature_specs.meaning import differences
from feature_specs.parser import parser
from feature_specs.spec import FeatureSpec

_log = logging.getLogger("estimator_kit")

_PLACES = "places.json"


class Versions(documents.Root[dict[str, str]]):
    """`versions.json`."""


class _Places(documents.Root[dict[str, AxisPlaces]]):
    """`places.json`."""


# Removed when the process ends.
_LOCAL_COPIES: list[tempfile.TemporaryDirectory[str]] = []

_PACKAGES = (
    "estimator-kit",
    "tensorflow",
    "tensorflow-estimator",
    "tf_keras",
    "numpy",
    "protobuf",
    "pydantic",
)

# Groups affect variables, whose shapes and places are compared, and what a model makes of `raw` is
# in its code.
_SECTIONS = ("features", "columns", "labels", "objectives")


def write_record(
    command: Trained, spec: FeatureSpec, places: Optional[PlacesRecord] = None
) -> None:
    """Writes flags, versions and spec into the model directory.

    Args:
      command: what is trained.
      spec: the feature spec.
      places: the places of the model's variables, or None; see `input_places`.
    """
    documents.write_text(
        os.path.join(command.run.model_dir, "flags.txt"), resolved_flags(command.settings)
    )
    used = {**versions(), "feature_spec": spec.fingerprint()}
    Versions(used).save(os.path.join(command.run.model_dir, "versions.json"))
    folder = os.path.join(command.run.model_dir, "feature_spec")
    for file in _files(spec):
        # With unchanged line breaks, because their digests are compared.
        with open(spec.directory / file, encoding="utf-8", newline="") as words:
            documents.write_text(os.path.join(folder, file), words.read())
    kept_files.Digests(_digests(spec)).save(os.path.join(folder, kept_files.NAME))
    if places is not None:
        _Places(dict(places)).save(os.path.join(folder, _PLACES))
    # Not sorted, because the order of the objectives is the order of their logits.
    documents.write_json(
        os.path.join(folder, "spec.json"), spec.to_dict(defaults=True), sort_keys=False
    )


def read_flags(model_dir: str) -> list[str]:
    """The lines of `flags.txt`. Empty if the run has not begun."""
    content = file_systems.read(os.path.join(model_dir, "flags.txt")) or b""
    lines = content.decode("utf-8", "replace").splitlines()
    return [line for line in lines if line.startswith("--")]


def changed_flags(command: Trained, names: Collection[str]) -> list[str]:
    """How settings differ since the last start, by `flags.txt`: a sentence for each."""
    kept = read_flags(command.run.model_dir)
    if not kept:
        return []
    sides = (
        values_in(lines, names) for lines in (kept, resolved_flags(command.settings).splitlines())
    )
    return differences(*({f"--{name}": value for name, value in side.items()} for side in sides))


def check_spec_unchanged(model_dir: str, spec: FeatureSpec, places: PlacesRecord) -> None:
    """Raises CheckpointError if the stored spec and the current spec differ in meaning.

    Args:
      model_dir: the model directory with the stored spec.
      spec: the current spec.
      places: the current places of the model's variables. The order of columns is part of the
        meaning of a checkpoint, and shapes do not show it.
    """
    folder = os.path.join(model_dir, "feature_spec")
    changes = changes_since(folder, spec)
    kept = kept_places(folder)
    if kept is not None:
        changes += place_moves.differences(kept, places)
    else:
        before = kept_spec(folder)
        changes += place_moves.changed_groups(before.groups if before else {}, spec.groups)
    if changes:
        listing = "\n".join(f"  {change}" for change in changes)
        raise CheckpointError(
            f"the spec differs from the spec that {model_dir} was trained with:\n{listing}\n"
            "Train into a new --model_dir (with --warm_start_from, to keep what still fits), or "
            "go back to the old spec."
        )


def kept_spec(folder: str) -> Optional[FeatureSpec]:
    """The spec in a folder `feature_spec`, or None. The folder may be in a store.

    A folder in a store is copied to a local one, which exists until the process ends: a spec reads
    its vocabularies later.

    Raises:
      SpecError: the spec is damaged.
      ExportError, CheckpointError: a vocabulary was changed; see `kept_files`.
    """
    path = os.path.join(folder, "spec.json")
    if not file_systems.exists(path):
        return None
    kept_files.check_folder(folder)
    if file_systems.scheme_of(folder) is None:
        return parser.load(path, stored=True)
    local = tempfile.TemporaryDirectory(prefix="estimator_kit-spec-")
    _LOCAL_COPIES.append(local)
    file_systems.copy_folder(folder, local.name)
    try:
        spec = parser.load(os.path.join(local.name, "spec.json"), stored=True)
    except SpecError as error:
        raise SpecError(path, error.problems) from error
    return dataclasses.replace(spec, source=path)


def kept_places(folder: str) -> Optional[PlacesRecord]:
    """The places that `write_record` stored in a folder; None if it stored none."""
    kept = _Places.load(os.path.join(folder, _PLACES))
    return None if kept is None else kept.root


def changes_since(
    folder: str, spec: FeatureSpec, aspects: Collection[str] = meaning.CHECKPOINT.aspects
) -> list[str]:
    """How a spec differs in these aspects from the spec that `write_record` stored in a folder.

    Returns a sentence for each difference, none if the folder has no spec.

    Raises:
      ConfigError: the stored spec is damaged.
    """
    try:
        kept = kept_spec(folder)
    except SpecError as error:
        raise ConfigError(f"{error}\nRepair {folder}/spec.json or remove it.") from error
    if kept is None:
        return []
    return differences(kept.meaning(aspects, _SECTIONS), spec.meaning(aspects, _SECTIONS))


def _digests(spec: FeatureSpec) -> dict[str, str]:
    return {
        file: hashlib.sha256((spec.directory / file).read_bytes()).hexdigest()
        for file in _files(spec)
    }


def _files(spec: FeatureSpec) -> list[str]:
    """The files that define the meaning of ids, relative to the spec's folder."""
    return [file for column in spec.columns.values() for file in column.files]


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that affect the result."""
    numbers = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            numbers[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            numbers[package] = "not installed"
    return numbers


NAME = "model_params.json"
_FLAG = "--model_params="


class _Kept(documents.Root[dict[str, JsonValue]]):
    """`model_params.json`."""


def write_params(model_dir: str, params: ModelParams) -> None:
    """Stores the parameters with which a training begins or goes on, defaults included."""
    _Kept(params.model_dump(mode="json")).save(os.path.join(model_dir, NAME))


def kept_params(model_dir: str) -> dict[str, JsonValue]:
    """The parameters that `write_params` stored; empty if the file does not exist."""
    kept = _Kept.load(os.path.join(model_dir, NAME))
    return {} if kept is None else kept.root


def check_params(model_dir: str, model: str, params: ModelParams) -> None:
    """Raises CheckpointError if a parameter differs that changes the logits of given variables."""
    changed = params_changes(model_dir, params, meaning.CHECKPOINT.aspects)
    if changed:
        listing = "\n".join(f"  {change}" for change in changed)
        raise CheckpointError(
            f"the parameters of the model {model} differ from the parameters that {model_dir} was "
            f"trained with:\n{listing}\nWith other values, the same variables give other answers. "
            "Go back to the old values with --model_params, or train into a new --model_dir (with "
            "--warm_start_from, to take these variables)."
        )


def other_optimizer(model_dir: str, params: ModelParams) -> str:
    """The flags that go on with the optimizer of the last start, as a sentence; "" if it is equal.

    Slots of one optimizer do not fit another, so a checkpoint needs its optimizer.
    """
    kept = _Kept.load(os.path.join(model_dir, NAME))
    # A folder without the file is of a version in which every model had this default.
    before = {"optimizer": "adagrad", "learning_rate": 0.05} if kept is None else kept.root
    now = params.model_dump(mode="json")
    names = [
        name
        for pair in params.optimizer_rates.items()
        for name in pair
        if pair[0] in before and before[pair[0]] != now[pair[0]]
    ]
    if not names:
        return ""
    flags = " ".join(
        f"'{_FLAG}{name}={json.dumps(before[name])}'" for name in names if name in before
    )
    return (
        f"The checkpoint was trained with the optimizer {json.dumps(before[names[0]])}, and this "
        f"start has {json.dumps(now[names[0]])}. To go on with the old one, add {flags}."
    )


def params_changes(model_dir: str, params: ModelParams, aspects: Collection[str]) -> list[str]:
    """How parameters differ in these aspects since the last start: a sentence for each."""
    kept = _kept(model_dir, type(params)) or {}
    return [
        f"{name}: was {json.dumps(kept[name])}, is {json.dumps(value)}"
        for name, value in params.model_dump(mode="json").items()
        if name in kept
        and kept[name] != value
        and changes_of(type(params), name).intersection(aspects)
    ]


def _kept(model_dir: str, kind: type[ModelParams]) -> Optional[dict[str, JsonValue]]:
    """The values with which the directory was trained, as JSON; None if it does not say."""
    kept = _Kept.load(os.path.join(model_dir, NAME))
    if kept is not None:
        return kept.root
    lines = read_flags(model_dir)
    if not lines:
        return None
    flag_values: dict[str, Any] = {}
    for line in lines:
        name, equal, text = line.removeprefix(_FLAG).partition("=")
        if line.startswith(_FLAG) and equal and name in kind.model_fields:
            try:
                flag_values[name] = json.loads(text)
            except ValueError:
                return None
    try:
        return kind.model_validate(flag_values).model_dump(mode="json")
    except pydantic.ValidationError:  # Of an older version of the model.
        return None


def changes(
    command: Train, spec: FeatureSpec, model: ModelFn, aspects: Collection[str]
) -> list[str]:
    """A sentence for each setting, parameter of the model and field of the spec that differs.

    Only those count that change one of these aspects.
    """
    folder = os.path.join(command.run.model_dir, "feature_spec")
    return [
        *changed_flags(command, counted(command.program.mode, aspects)),
        *params_changes(command.run.model_dir, model.params, aspects),
        *changes_since(folder, spec, aspects),
    ]


def other_outputs(command: Train, spec: FeatureSpec, model: ModelFn) -> list[str]:
    """How the outputs of the exports that training writes differ; empty if it writes none."""
    if command.program.mode == "train" or not command.exports.exporters:
        return []
    return changes(command, spec, model, meaning.EXPORTS.aspects)


def say_changes(command: Train, spec: FeatureSpec, model: ModelFn, step: int) -> None:
    """Logs how a training that goes on at a step finds its numbers otherwise than before."""
    differences = changes(command, spec, model, meaning.RESUMED.aspects)
    if differences:
        _log.info(
            "training goes on at step %d otherwise than before: %s", step, "; ".join(differences)
        )
