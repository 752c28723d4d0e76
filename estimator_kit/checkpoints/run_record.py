"""The run record: stores in the model directory what a run was made from, and compares it later.

    model_dir/flags.txt             all flags with their final values, as a flagfile
    model_dir/versions.json         the versions of Python and of packages that affect the result
    model_dir/feature_spec/         spec.json and its vocabulary files, for `feature_specs.load`
    model_dir/feature_spec/places.json  what owns each row and column of a kernel

A changed spec can fit a checkpoint's shapes and still mean something else: for example, a
vocabulary in another order or a new normalizer. So a start that finds a checkpoint compares its
spec with the stored spec.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import platform
import tempfile
from collections.abc import Collection
from importlib import metadata
from typing import Optional

import tensorflow as tf
from pydantic import Field

from estimator_kit import storage
from estimator_kit.checkpoints import kept_files
from estimator_kit.checkpoints.warm_start import place_moves
from estimator_kit.checkpoints.warm_start.place_moves import Record
from estimator_kit.config.flags import resolved_flags, values_in
from estimator_kit.config.mode_configs import ModelDirConfig
from estimator_kit.errors import CheckpointError, ConfigError
from feature_specs.errors import SpecError
from feature_specs.files import documents, file_systems
from feature_specs.meaning import compared
from feature_specs.meaning.differences import differences
from feature_specs.parser import parser
from feature_specs.spec import FeatureSpec

_PLACES = "places.json"


class _KeptSpec(storage.Form):
    """What an old directory without places is compared by."""

    groups: dict[str, list[str]] = Field({})


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
    config: ModelDirConfig, spec: FeatureSpec, places: Optional[Record] = None
) -> None:
    """Writes flags, versions and spec into the model directory.

    Args:
      config: what is trained.
      spec: the feature spec.
      places: the places of the model's variables, or None; see `input_places`.
    """
    documents.write_text(os.path.join(config.model_dir, "flags.txt"), resolved_flags(config))
    used = {**versions(), "feature_spec": spec.fingerprint()}
    documents.write_json(os.path.join(config.model_dir, "versions.json"), used)
    folder = os.path.join(config.model_dir, "feature_spec")
    for file in _files(spec):
        # With unchanged line breaks, because their digests are compared.
        with open(spec.directory / file, encoding="utf-8", newline="") as words:
            documents.write_text(os.path.join(folder, file), words.read())
    documents.write_json(os.path.join(folder, kept_files.NAME), _digests(spec))
    if places is not None:
        documents.write_json(os.path.join(folder, _PLACES), place_moves.to_json(places))
    # Not sorted, because the order of the objectives is the order of their logits.
    documents.write_json(
        os.path.join(folder, "spec.json"), spec.to_dict(defaults=True), sort_keys=False
    )


def read_flags(model_dir: str) -> list[str]:
    """The lines of `flags.txt`. Empty if the run has not begun."""
    path = os.path.join(model_dir, "flags.txt")
    if not tf.io.gfile.exists(path):
        return []
    with tf.io.gfile.GFile(path, "rb") as file:
        text = file.read().decode("utf-8", "replace")
    return [line for line in text.splitlines() if line.startswith("--")]


def changed_flags(config: ModelDirConfig, names: Collection[str]) -> list[str]:
    """How settings differ since the last start, by `flags.txt`: a sentence for each."""
    kept = read_flags(config.model_dir)
    if not kept:
        return []
    sides = (values_in(lines, names) for lines in (kept, resolved_flags(config).splitlines()))
    return differences(*({f"--{name}": value for name, value in side.items()} for side in sides))


def check_spec_unchanged(model_dir: str, spec: FeatureSpec, places: Record) -> None:
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
        before = storage.read_json(os.path.join(folder, "spec.json"), _KeptSpec) or {}
        changes += place_moves.changed_groups(before.get("groups", {}), spec.groups)
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
    if not tf.io.gfile.exists(path):
        return None
    kept_files.check_folder(folder)
    if file_systems.scheme_of(folder) is None:
        return parser.load(path)
    local = tempfile.TemporaryDirectory(prefix="estimator_kit-spec-")
    _LOCAL_COPIES.append(local)
    file_systems.copy_folder(folder, local.name)
    try:
        spec = parser.load(os.path.join(local.name, "spec.json"))
    except SpecError as error:
        raise SpecError(path, error.problems) from error
    return dataclasses.replace(spec, source=path)


def kept_places(folder: str) -> Optional[Record]:
    """The places that `write_record` stored in a folder; None if it stored none."""
    document = storage.read_json(os.path.join(folder, _PLACES), place_moves.Form)
    return None if document is None else place_moves.from_json(document)


def changes_since(
    folder: str, spec: FeatureSpec, aspects: Collection[str] = compared.CHECKPOINT.aspects
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
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found
