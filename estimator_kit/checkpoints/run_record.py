"""What a run was made from, kept in its model directory, and whether a later start still fits it.

    model_dir/flags.txt             every flag as it was resolved; a flagfile
    model_dir/versions.json         of Python and the packages that decide a result
    model_dir/feature_spec/         spec.json with its vocabulary files; `feature_specs.load`s again
    model_dir/feature_spec/places.json  which column each row of a kernel belongs to

A changed spec can fit a checkpoint's shapes and still mean something else: a vocabulary in another
order, a new normalizer. So a start that finds a checkpoint compares its spec with the one kept.
"""

from __future__ import annotations

import hashlib
import os
import platform
from importlib import metadata
from typing import Any, Optional

from pydantic import Field

from estimator_kit import storage
from estimator_kit.checkpoints.warm_start import place_moves
from estimator_kit.checkpoints.warm_start.place_moves import Record
from estimator_kit.config.flags import resolved_flags
from estimator_kit.config.mode_configs import ModelDirConfig
from estimator_kit.errors import CheckpointError
from feature_specs.spec import FeatureSpec

_PLACES = "places.json"


class _KeptEntry(storage.Form):
    file: Optional[str] = None
    head: Optional[str] = None


class _KeptSpec(storage.Form):
    """What is read of a kept spec without the parser, which a later version may have changed."""

    features: dict[str, _KeptEntry] = Field({})
    columns: dict[str, _KeptEntry] = Field({})
    labels: dict[str, _KeptEntry] = Field({})
    objectives: dict[str, _KeptEntry] = Field({})
    groups: dict[str, list[str]] = Field({})


_Digests = dict[str, str]

_PACKAGES = (
    "estimator-kit",
    "tensorflow",
    "tensorflow-estimator",
    "tf_keras",
    "numpy",
    "protobuf",
    "pydantic",
)

# May change between two starts: they weigh what is learned, are measured alone, or were used up by
# the first start.
_FREE_TO_CHANGE = {
    "objectives": ("loss_weight", "metrics", "group_by"),
    "columns": ("initializer", "pretrained"),
}


def write_record(
    config: ModelDirConfig, spec: FeatureSpec, places: Optional[Record] = None
) -> None:
    """Writes flags, versions and spec into the model directory.

    Args:
      config: what is trained.
      spec: the feature spec.
      places: of the model's variables; see `input_places`. None where it is not known.
    """
    storage.write_text(os.path.join(config.model_dir, "flags.txt"), resolved_flags(config))
    used = {**versions(), "feature_spec": spec.fingerprint()}
    storage.write_json(os.path.join(config.model_dir, "versions.json"), used)
    folder = os.path.join(config.model_dir, "feature_spec")
    for file in _files(spec):
        words = (spec.directory / file).read_text(encoding="utf-8")
        storage.write_text(os.path.join(folder, file), words)
    storage.write_json(os.path.join(folder, "digests.json"), _digests(spec))
    if places is not None:
        storage.write_json(os.path.join(folder, _PLACES), place_moves.to_json(places))
    # In its own order: logits lie side by side in that of the objectives.
    storage.write_json(os.path.join(folder, "spec.json"), spec.to_dict(), sort_keys=False)


def check_spec_unchanged(model_dir: str, spec: FeatureSpec, places: Record) -> None:
    """Raises CheckpointError when the kept spec means something else than this one.

    Args:
      model_dir: of the run that is to be gone on with or used.
      spec: the spec of now.
      places: what the places of the model's variables belong to now; the order of columns is part
        of what a checkpoint means, and shapes do not show it.
    """
    folder = os.path.join(model_dir, "feature_spec")
    changes = list(changes_since(folder, spec).values())
    kept = kept_places(folder)
    if kept is not None:
        changes += place_moves.differences(kept, places)
    else:
        before = storage.read_json(os.path.join(folder, "spec.json"), _KeptSpec) or {}
        changes += place_moves.changed_groups(before.get("groups", {}), spec.groups)
    if changes:
        listing = "\n".join(f"  {change}" for change in changes)
        raise CheckpointError(
            f"the spec is not the one that {model_dir} was trained with:\n{listing}\n"
            "train into a new --model_dir (with --warm_start_from, to keep what still fits), or "
            "go back to the old spec"
        )


def kept_places(folder: str) -> Optional[Record]:
    """The places that `write_record` kept in a folder; None where it kept none."""
    document = storage.read_json(os.path.join(folder, _PLACES), place_moves.Form)
    return None if document is None else place_moves.from_json(document)


def changes_since(folder: str, spec: FeatureSpec) -> dict[tuple[str, str], str]:
    """What a spec means otherwise than one that `write_record` kept in a folder.

    Returns `{(section, name): sentence}`; nothing when the folder keeps no spec.
    """
    kept = storage.read_json(os.path.join(folder, "spec.json"), _KeptSpec)
    changes: dict[tuple[str, str], str] = {}
    if kept is None:
        return changes
    digests = storage.read_json(os.path.join(folder, "digests.json"), _Digests) or {}
    digests_now = _digests(spec)
    for section, entries in spec.to_dict().items():
        if section in ("ignored", "groups", "drift", "filter", "retraining", "tables"):
            # The effect of the first two is on variables, which are compared by shapes and places;
            # what drift may be changes no model, and another filter is another input
            # (`training.position`).
            continue
        before = kept.get(section, {})
        for name in sorted({*entries, *before}):
            old, new = (_what_matters(section, x.get(name)) for x in (before, entries))
            if old != new and not _differ_in_path_alone(old, new, digests, digests_now):
                was, now = _shown(old), _shown(new)
                changes[section, name] = f"{section}.{name}: was {was}, is {now}"
    first, second = list(kept.get("objectives", {})), list(spec.objectives)
    if first != second and sorted(first) == sorted(second):
        sentence = f"objectives: their order was {', '.join(first)}, is {', '.join(second)}"
        changes["objectives", ""] = sentence
    for name, column in spec.columns.items():
        for now in column.files:
            digest = digests_now[now]
            file = kept.get("columns", {}).get(name, {}).get("file")
            if digests.get(file, digest) != digest:
                sentence = f"columns.{name}: the words of {now} changed"
                changes.setdefault(("columns", name), sentence)
    return changes


def _what_matters(section: str, entry: Any) -> Any:
    """An entry without what may change."""
    free = _FREE_TO_CHANGE.get(section, ())
    if entry and entry.get("head") == "ranking":  # Which learns the order within its groups.
        free = tuple(key for key in free if key != "group_by")
    return entry and {key: value for key, value in entry.items() if key not in free}


def _differ_in_path_alone(
    old: Any, new: Any, digests: dict[str, str], digests_now: dict[str, str]
) -> bool:
    """Whether two entries are a vocabulary of the same words, in files of two names."""
    if not old or not new or "file" not in old or "file" not in new:
        return False
    same_words = digests.get(old["file"]) == digests_now.get(new["file"])
    return same_words and {**old, "file": new["file"]} == new


def _shown(entry: Any) -> str:
    return "absent" if entry is None else str(entry)


def _digests(spec: FeatureSpec) -> dict[str, str]:
    return {
        file: hashlib.sha256((spec.directory / file).read_bytes()).hexdigest()
        for file in _files(spec)
    }


def _files(spec: FeatureSpec) -> list[str]:
    """The files that decide what ids mean, relative to the spec's folder."""
    return [file for column in spec.columns.values() for file in column.files]


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide a result."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found
