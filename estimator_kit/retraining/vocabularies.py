"""Makes the spec of a cycle: a copy of the given spec, with vocabularies updated from the data.

    append     the words of the live model's vocabularies keep their ids; new words follow them
    re_rank    words by falling frequency in the window; rare words are dropped
    keep       the vocabulary files stay unchanged

Statistics that the spec refers to are updated together with the words. With `append`, a feature
keeps the statistics of the model that the training starts from. So its boundaries and normalizers
stay the same, and the warm start fits. `input_pipelines.prepare.analyze.refresh` counts the words;
this module finds the old words. It never changes the given spec or its files.
"""

from __future__ import annotations

import os
import pathlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Optional

from pydantic import Field

from estimator_kit.retraining.cycle_files import StageFile
from feature_specs import statistics as statistics_file
from feature_specs.embeddings import pretrained_files
from feature_specs.files import documents, staged
from feature_specs.kinds import Vocabulary
from feature_specs.kinds.vocabulary import read_words
from feature_specs.parser import parser
from feature_specs.parser.yaml_reader import read_text
from feature_specs.spec import FeatureSpec
from input_pipelines.prepare.analyze import refresh
from input_pipelines.prepare.analyze.summary import RecordSummary

_EXAMPLES = 5
_FILES = ("file", "statistics")


class Words(documents.Part):
    """How the words of a vocabulary changed: counts, and some examples of each change."""

    words: int
    new: int
    moved: int
    dropped: int
    examples: dict[str, list[str]] = Field({})


class Vocabularies(StageFile):
    """The spec of a cycle, its vocabularies, and the files with statistics of the start."""

    NAME = "vocabularies.json"
    spec: str
    files: dict[str, Words] = Field({})
    kept: list[str] = Field([])


def make(
    spec: FeatureSpec,
    target: str,
    *,
    files: Sequence[str],
    min_count: int,
    summary: Optional[Callable[[], RecordSummary]] = None,
    live: Optional[str] = None,
    start: Optional[str] = None,
) -> Vocabularies:
    """Writes the spec of a cycle into a folder, and returns how the words changed.

    Args:
      spec: the given spec; `spec.source` is its file.
      target: the folder. Its old content is replaced.
      files: the files of the training window.
      min_count: how often a new word must occur.
      summary: returns the summary of the records in these files. By default, they are read.
      live: the folder of the live model's spec, which has the old words. Without it, the given spec
        has the old words.
      start: the folder of the spec of the model that the training starts from. None if it starts
        from scratch.
    """
    source = pathlib.Path(spec.source)
    place = pathlib.Path(target)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    path = place / source.name
    directory = spec.directory.resolve()
    vectors = [os.path.relpath(file, directory) for file in pretrained_files.files_of(spec)]
    for name in dict.fromkeys([source.name, *referred_to(source), *vectors]):
        with staged.file(str(place / name)) as temporary:
            shutil.copyfile(source.parent / name, temporary)
    named = [c.file for c in spec.of_kind(Vocabulary).values() if c.file]
    old = {name: read_words(_first(live, name, source)) for name in dict.fromkeys(named)}
    growth = spec.retraining.vocabularies
    kept: list[str] = []
    if growth != "keep" and (named or "statistics" in _keys(source)):
        refresh.refresh(str(path), files, min_count=min_count, summary=summary)
        if growth == "append":
            for name, words in old.items():
                old_words = set(words)
                more = [word for word in read_words(place / name) if word not in old_words]
                documents.write_text(str(place / name), "\n".join([*words, *more, ""]))
            if start is not None:
                kept = _keep_statistics(source, place, pathlib.Path(start))
    parser.load(path)  # Checks the new spec.
    changes = {name: _changes(words, read_words(place / name)) for name, words in old.items()}
    return Vocabularies(spec=str(path), files=changes, kept=kept)


def _keep_statistics(source: pathlib.Path, place: pathlib.Path, start: pathlib.Path) -> list[str]:
    """Gives the features in new statistics files the statistics that they have in the start's.

    A feature that is new in the spec keeps the statistics of the window. Returns the changed files.
    """
    named = dict.fromkeys(name for key, name in _references(source) if key == "statistics")
    kept = [name for name in named if (start / name).is_file()]
    for name in kept:
        new = statistics_file.load(place / name)
        old = statistics_file.load(start / name)
        features = {**new.features, **old.features}
        other = {"filter": old.filter} if old.filter != new.filter else {}
        new.model_copy(update={"features": features, **other}).save(str(place / name))
    return kept


def referred_to(spec: pathlib.Path) -> list[str]:
    """The existing files that a spec refers to, relative to its folder."""
    names = dict.fromkeys(name for key, name in _references(spec) if key in _FILES)
    return [name for name in names if (spec.parent / name).is_file()]


def _keys(spec: pathlib.Path) -> set[str]:
    return {key for key, _ in _references(spec)}


def _references(spec: pathlib.Path) -> Iterator[tuple[str, str]]:
    def walk(value: Any) -> Iterator[tuple[str, str]]:
        if isinstance(value, Mapping):
            for key, part in value.items():
                if key in _FILES and isinstance(part, str):
                    yield key, part
                yield from walk(part)
        elif isinstance(value, list):
            for part in value:
                yield from walk(part)

    document, _ = read_text(spec.read_text(encoding="utf-8"), str(spec))
    yield from walk(document["columns"])


def _first(live: Optional[str], name: str, source: pathlib.Path) -> pathlib.Path:
    """The file with the old words."""
    if live is not None and os.path.exists(os.path.join(live, name)):
        return pathlib.Path(live) / name
    return source.parent / name


def _changes(old: Sequence[str], new: Sequence[str]) -> Words:
    before = {word: i for i, word in enumerate(old)}
    after = {word: i for i, word in enumerate(new)}
    added = [word for word in new if word not in before]
    dropped = [word for word in old if word not in after]
    moved = [word for word in new if before.get(word, after[word]) != after[word]]
    return Words(
        words=len(new),
        new=len(added),
        moved=len(moved),
        dropped=len(dropped),
        examples={
            what: words[:_EXAMPLES]
            for what, words in (("new", added), ("moved", moved), ("dropped", dropped))
            if words
        },
    )
