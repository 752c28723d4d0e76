"""Compares the vocabulary files that a run or an export keeps with their digests.

    <model_dir>/feature_spec/digests.json                {file: SHA-256}, by `run_record`
    <export>/assets.extra/feature_spec/digests.json      a copy
    <export>/assets/                                     what the graph of the export reads

A vocabulary in another order, or with another word, loads without an error and gives other answers.
So everything that reads an export or the spec of a model directory calls `check` first. A process
reads the files again only if they have changed. Folders without digests, such as exports of
other programs, are not checked. This module never writes.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator

from estimator_kit.errors import CheckpointError, ExportError
from feature_specs.files import documents, file_systems

NAME = "digests.json"

_SPEC = "feature_spec"
_EXTRA = "assets.extra"

# The names, sizes and times of files that were found to be right, by folder.
_checked: dict[str, list[tuple[str, list[int]]]] = {}


class Digests(documents.Root[dict[str, str]]):
    """`digests.json`."""


def check_export(path: str) -> None:
    """Compares the vocabularies of an export with its digests.

    Raises:
      ExportError: a file was changed, or does not exist; the message names it.
    """
    folder = os.path.join(path, _EXTRA, _SPEC)
    digests = _digests(folder)
    names: dict[str, set[str]] = {}
    for file, digest in digests.items():
        names.setdefault(os.path.basename(file), set()).add(digest)
    assets = os.path.join(path, "assets")
    asset_names = file_systems.names_in(assets) if digests else []
    pairs = [
        (os.path.join(assets, asset), expected)
        for asset in asset_names
        for name, expected in names.items()
        # TensorFlow numbers files with the same name: `words.txt`, `words.txt_1`.
        if re.fullmatch(re.escape(name) + r"(_\d+)?", asset)
    ]
    pairs += [(os.path.join(folder, file), {digest}) for file, digest in digests.items()]
    for problem in _problems(path, pairs):
        raise ExportError(f"{problem} Restore the file, or export the model again.")


def check_folder(folder: str) -> None:
    """Compares the vocabularies in a folder `feature_spec` with its digests.

    Raises:
      ExportError: the folder is of an export, and a file was changed; see `check_export`.
      CheckpointError: the folder is of a model directory, and a file was changed.
    """
    above, name = os.path.split(os.path.dirname(folder))
    if name == _EXTRA:
        check_export(above)
        return
    digests = _digests(folder)
    pairs = [(os.path.join(folder, file), {digest}) for file, digest in digests.items()]
    for problem in _problems(folder, pairs):
        raise CheckpointError(f"{problem} Restore the file that the model was trained with.")


def _digests(folder: str) -> dict[str, str]:
    kept = Digests.load(os.path.join(folder, NAME))
    return kept.root if kept is not None else {}


def _problems(place: str, pairs: list[tuple[str, set[str]]]) -> Iterator[str]:
    """What is wrong with files; `pairs` has each file with the digests that it may have."""
    looks = []
    for path, _ in pairs:
        if not file_systems.exists(path):
            yield f"{path} is missing."
            return
        looks.append((path, file_systems.stamp(path)))
    if _checked.get(place) == looks:
        return
    for path, expected in pairs:
        content = file_systems.read(path) or b""
        # An older kit stored line breaks of Windows as line breaks of Linux.
        for form in (content, content.replace(b"\n", b"\r\n")):
            digest = hashlib.sha256(form).hexdigest()
            if digest in expected:
                break
        else:
            wanted = " or ".join(f"{digest[:12]}..." for digest in sorted(expected))
            new_digest = hashlib.sha256(content).hexdigest()[:12]
            yield (
                f"{path} was changed after the training: expected the SHA-256 {wanted}, got "
                f"{new_digest}..."
            )
            return
    _checked[place] = looks
