"""Compares the `pretrained` entries of a spec with their files, without TensorFlow.

`check_entries` reads no file and is part of every reading of a spec. `check` makes the quick checks
of `--mode=validate`. Only `pretrained` reads the files completely, when a new training starts. A
trained model therefore does not need the files. This module never writes and imports neither
TensorFlow nor NumPy.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Iterator
from typing import Optional

from feature_specs.embeddings.vector_files import VectorFileError, npy_array, text_vectors
from feature_specs.errors import Path, Problem, SpecError, nearest
from feature_specs.kinds import Column, Embedding, Vocabulary
from feature_specs.kinds.embedding import Pretrained
from feature_specs.kinds.vocabulary import inside, not_inside
from feature_specs.spec import FeatureSpec

# The number of bytes that `check` reads of a text file.
_CHECKED_BYTES = 4 * 2**20


@dataclasses.dataclass(frozen=True)
class Looked:
    """The result of `check` for the vectors of one column.

    Attributes:
      column: the column.
      file: the file or checkpoint, as the spec names it.
      text: what was checked and what was not, for people.
      warning: a setting that is allowed but probably not intended, or None.
    """

    column: str
    file: str
    text: str
    warning: Optional[str] = None


def columns_with(spec: FeatureSpec) -> list[str]:
    """The embedding columns with pretrained vectors. Only the first column of a shared table."""
    result: dict[str, str] = {}
    used = spec.used_columns()
    for name, column in spec.of_kind(Embedding).items():
        if name in used and column.pretrained is not None:
            result.setdefault(f"table {column.table}" if column.table else name, name)
    return list(result.values())


def embedding_of(spec: FeatureSpec, name: str) -> tuple[Embedding, Pretrained]:
    """A column of `columns_with`, and its entry `pretrained`."""
    column = spec.columns[name]
    assert isinstance(column, Embedding) and column.pretrained is not None
    return column, column.pretrained


def check_entries(spec: FeatureSpec) -> Iterator[Problem]:
    """The problems of `pretrained` entries, without reading their files."""
    checked = set()
    for name, column in spec.of_kind(Embedding).items():
        if column.pretrained is None or (column.table is not None and column.table in checked):
            continue
        checked.add(column.table)
        path, entry = _place(spec, name), column.pretrained
        file = entry.file if entry.file is not None else entry.checkpoint
        assert file is not None
        if inside(spec.directory, file) is None:
            key = "checkpoint" if entry.file is None else "file"
            yield Problem((*path, key), not_inside(spec.directory, file))
        category = _category(spec, column)
        if category is not None and category.keyed:
            yield Problem(
                path,
                f"column {column.source!r} is {category.kind}: which value has which row is only "
                "known during training, so a file cannot give start values. Train a step with a "
                "vocabulary column instead, and start the growing one warm from it.",
            )
        elif _is_text(entry) and category is not None and category.categorical:
            if not isinstance(category, Vocabulary):
                yield Problem(
                    (*path, "file"),
                    f"a text file names words, but column {column.source!r} is {category.kind}, "
                    "which has no words. Use a vocabulary column, or an .npy file in the order of "
                    "the ids.",
                )


def _place(spec: FeatureSpec, name: str) -> Path:
    return (*spec.of_kind(Embedding)[name].place_of_options(name), "pretrained")


def check(spec: FeatureSpec) -> list[Looked]:
    """Checks the files of all pretrained vectors.

    It reads the header of an `.npy` file and the first 4 MiB of a text file. For a checkpoint it
    only checks that the files exist.

    Raises:
      SpecError: files do not exist or do not fit. `problems` lists all of them.
    """
    looked, problems = [], []
    for name in columns_with(spec):
        try:
            looked.append(_look(spec, name))
        except VectorFileError as error:
            problems.append(spec.problem(_place(spec, name), str(error)))
    if problems:
        raise SpecError(spec.source, problems)
    return looked


def frozen_warning(spec: FeatureSpec, name: str, vector_count: int) -> Optional[str]:
    """The warning for a frozen table in which only `vector_count` of the ids have vectors, or None.

    Random vectors that are never trained are probably not intended. If the column has an
    `initializer`, they are intended and cause no warning.
    """
    column, _ = embedding_of(spec, name)
    size = spec.size_of(column.source)
    if column.trainable or column.initializer is not None or vector_count == size:
        return None
    category = _category(spec, column)
    buckets = min(category.unnamed_ids if category is not None else 0, size - vector_count)
    among = f" ({buckets:,} of them out-of-vocabulary buckets)" if buckets else ""
    return (
        f"column {name!r}: trainable is false, but {size - vector_count:,} of {size:,} ids{among} "
        "have no pretrained vector, so they keep random vectors. Add vectors for them, or set "
        "initializer: zeros or trainable: true."
    )


def path_of(spec: FeatureSpec, entry: Pretrained) -> pathlib.Path:
    """The path of the file, or the prefix of the checkpoint. Checks that it exists."""
    name = entry.file if entry.file is not None else entry.checkpoint
    assert name is not None
    path = inside(spec.directory, name)
    if path is None:
        raise VectorFileError(not_inside(spec.directory, name))
    if entry.checkpoint is None:
        if path.is_dir():
            raise VectorFileError(f"{str(path)!r} is a folder, expected a file of vectors")
        if not path.exists():
            hint = nearest(path.name, _files_beside(path), least=0.8)
            raise VectorFileError(
                f"the file {str(path)!r} does not exist"
                f"{hint or '. Correct the path. It is relative to the folder of the spec.'}"
            )
    elif not (path.is_file() or (path / "checkpoint").is_file() or _index(path).is_file()):
        siblings = [pathlib.PurePath(file) for file in _files_beside(path)]
        prefixes = [file.stem for file in siblings if file.suffix == ".index"]
        hint = nearest(path.name, prefixes, least=0.8)
        raise VectorFileError(
            f"the checkpoint {str(path)!r} does not exist: its folder has no file "
            f"{_index(path).name!r}"
            f"{hint or '. Correct the path. It is relative to the folder of the spec.'}"
        )
    elif path.suffix == ".index" or ".data-" in path.suffix:
        raise VectorFileError(
            f"{str(path)!r} is one file of a checkpoint. Use the common prefix of its files, "
            f"{path.stem!r}."
        )
    return path


def files_of(spec: FeatureSpec) -> list[str]:
    """The existing files of all pretrained vectors, each once; of a checkpoint, all its files.

    A trained model does not need the files, so they may be missing.
    """
    files: dict[str, None] = {}
    for name in columns_with(spec):
        _, entry = embedding_of(spec, name)
        path = inside(spec.directory, str(entry.file or entry.checkpoint))
        if path is None:
            continue
        if (path / "checkpoint").is_file():  # The folder of a training.
            files[str(path / "checkpoint")] = None
            text = (path / "checkpoint").read_text(encoding="utf-8", errors="replace")
            newest = re.search(r'^model_checkpoint_path: "(.*)"', text, re.MULTILINE)
            path = path / newest[1] if newest else path
        siblings = [path.with_name(file) for file in _files_beside(path)]
        own = (path.name, f"{path.name}.index")
        data = f"{path.name}.data-"
        for file in siblings:
            if file.name in own or file.name.startswith(data):
                files[str(file)] = None
    return list(files)


def words_of(spec: FeatureSpec, column: Embedding) -> list[str]:
    """The words of the vocabulary under a column, in the order of their ids."""
    category = _category(spec, column)
    assert isinstance(category, Vocabulary), "see check_entries"
    return category.row_names(spec)


def check_shape(spec: FeatureSpec, name: str, dtype: str, shape: tuple[int, ...]) -> None:
    """Raises VectorFileError unless an array has one row per id and the dimension of the column.

    An array does not say which id a row belongs to. A wrong number of rows is therefore the only
    sign of a different vocabulary. A file may lack the rows of out-of-vocabulary buckets, because
    vectors that were learned elsewhere have none. A checkpoint may not.
    """
    column, entry = embedding_of(spec, name)
    size = spec.size_of(column.source)
    category, least = _category(spec, column), size
    if entry.checkpoint is None and category is not None:
        least -= category.unnamed_ids
    fits = len(shape) == 2 and least <= shape[0] <= size and shape[1] == column.dimension
    if not fits or not dtype.startswith("float"):
        rows = str(size) if least == size else f"{least} to {size}"
        has_words = isinstance(category, Vocabulary)
        text = ", or use a text file, which names its words" if has_words else ""
        raise VectorFileError(
            f"got {dtype} {list(shape)}, expected floats [{rows}, {column.dimension}]: one row per "
            "id, in the order of the ids, and as many numbers per row as the column's dimension. "
            f"Write the array in this form{text}."
        )


def is_array(entry: Pretrained) -> bool:
    """Whether the vectors are in an `.npy` file."""
    return entry.file is not None and entry.file.endswith(".npy")


def _is_text(entry: Pretrained) -> bool:
    return entry.file is not None and not is_array(entry)


def unreadable(path: pathlib.Path, error: OSError) -> VectorFileError:
    """The error for a file that cannot be read."""
    return VectorFileError(f"{str(path)!r} cannot be read: {error.strerror or error}")


def none_known(path: pathlib.Path, words: int) -> VectorFileError:
    """The error for a text file that contains no word of the vocabulary."""
    return VectorFileError(
        f"{str(path)!r} has none of the {words:,} words of the vocabulary. Check that it belongs "
        "to this vocabulary, and that its words have the same case."
    )


def _look(spec: FeatureSpec, name: str) -> Looked:
    column, entry = embedding_of(spec, name)
    path, size = path_of(spec, entry), spec.size_of(column.source)
    try:
        if entry.checkpoint is not None:
            text = "exists; its tensor is checked when a training starts"
            return Looked(name, entry.checkpoint, text)
        assert entry.file is not None
        if is_array(entry):
            dtype, shape = npy_array(path)
            check_shape(spec, name, dtype, shape)
            text = f"{shape[0]:,} of {size:,} ids have a vector (its numbers were not checked)"
            return Looked(name, entry.file, text, frozen_warning(spec, name, shape[0]))
        ids = {word: i for i, word in enumerate(words_of(spec, column))}
        vector_count = 0
        for vector in text_vectors(path, ids, column.dimension):
            vector_count += vector.place is not None
            if vector.end >= _CHECKED_BYTES and vector.end < path.stat().st_size:
                text = f"its first {vector.end:,} bytes are valid; the rest was not checked"
                return Looked(name, entry.file, text)
    except OSError as error:
        raise unreadable(path, error) from error
    if not vector_count:
        raise none_known(path, len(ids))
    text = f"{vector_count:,} of {size:,} ids have a vector"
    return Looked(name, entry.file, text, frozen_warning(spec, name, vector_count))


def _category(spec: FeatureSpec, column: Embedding) -> Optional[Column]:
    """The column that provides the ids of an embedding, also below a weighted column."""
    category = spec.columns.get(column.source)
    if category is None or category.weighted_by is None or category.ids_source is None:
        return category
    return spec.columns.get(category.ids_source)


def _index(prefix: pathlib.Path) -> pathlib.Path:
    return prefix.with_name(f"{prefix.name}.index")


def _files_beside(path: pathlib.Path) -> list[str]:
    """The names of the files in the folder of a path. Empty if it cannot be read."""
    try:
        return sorted(file.name for file in path.parent.iterdir() if file.is_file())
    except OSError:
        return []
