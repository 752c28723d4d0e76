"""What a spec says of pretrained vectors, held against their files without TensorFlow.

`check_entries` needs no file and is part of every reading of a spec. `check` looks at the files,
for `--mode=validate`, as far as is quick. `pretrained` reads them whole before a
training starts from nothing; nothing else does, so that a model does not need the files that it
started from. Never writes; imports no TensorFlow and no NumPy.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator
from typing import Optional

from feature_specs.embeddings.vector_files import VectorFileError, npy_array, text_vectors
from feature_specs.errors import Problem, SpecError, nearest
from feature_specs.kinds import Column, Embedding, Vocabulary
from feature_specs.kinds.embedding_tables import Pretrained
from feature_specs.spec import FeatureSpec
from feature_specs.vocabulary import inside, not_inside

# So much of a text file `check` reads.
_CHECKED_BYTES = 4 * 2**20


@dataclasses.dataclass(frozen=True)
class Looked:
    """What `check` saw of one column's vectors.

    Attributes:
      column: the column.
      file: the file or checkpoint, as the spec names it.
      text: what of it was looked at and what was not, for people.
      warning: what is allowed and seldom meant, or None.
    """

    column: str
    file: str
    text: str
    warning: Optional[str] = None


def columns_with(spec: FeatureSpec) -> list[str]:
    """The embedding columns that start from pretrained vectors; of a shared table the first."""
    result: dict[str, str] = {}
    used = spec.used_columns()
    for name, column in spec.of_kind(Embedding).items():
        if name in used and column.pretrained is not None:
            result.setdefault(f"shared {column.shared}" if column.shared else name, name)
    return list(result.values())


def embedding_of(spec: FeatureSpec, name: str) -> tuple[Embedding, Pretrained]:
    """A column of `columns_with`, and where its vectors are."""
    column = spec.columns[name]
    assert isinstance(column, Embedding) and column.pretrained is not None
    return column, column.pretrained


def check_entries(spec: FeatureSpec) -> Iterator[Problem]:
    """What is wrong with `pretrained` entries whatever their files hold."""
    for name, column in spec.of_kind(Embedding).items():
        if column.pretrained is None:
            continue
        path, entry = ("columns", name, "pretrained"), column.pretrained
        file = entry.file if entry.file is not None else entry.checkpoint
        assert file is not None
        if inside(spec.directory, file) is None:
            key = "checkpoint" if entry.file is None else "file"
            yield Problem((*path, key), not_inside(spec.directory, file))
        category = _category(spec, column)
        if _is_text(entry) and category is not None and category.categorical:
            if not isinstance(category, Vocabulary):
                yield Problem(
                    (*path, "file"),
                    f"a text file names words, and column {column.source!r} is {category.kind}, "
                    "which has none; use a vocabulary column, or an .npy file in the order of "
                    "the ids",
                )


def check(spec: FeatureSpec) -> list[Looked]:
    """Looks at the files of all pretrained vectors.

    Of an `.npy` file it reads the header, of a text file the first 4 MiB, of a checkpoint only
    whether it is there.

    Raises:
      SpecError: files are missing or do not fit; its `problems` list them all.
    """
    looked, problems = [], []
    for name in columns_with(spec):
        try:
            looked.append(_look(spec, name))
        except VectorFileError as error:
            problems.append(spec.problem(("columns", name, "pretrained"), str(error)))
    if problems:
        raise SpecError(spec.source, problems)
    return looked


def frozen_warning(spec: FeatureSpec, name: str, known: int) -> Optional[str]:
    """What to say when `known` of the ids of a column have vectors, or None.

    Random vectors that are never trained are seldom meant; with an `initializer` of its own the
    spec says that they are.
    """
    column, _ = embedding_of(spec, name)
    size = spec.size_of(column.source)
    if column.trainable or column.initializer is not None or known == size:
        return None
    category = _category(spec, column)
    buckets = min(category.unnamed_ids if category is not None else 0, size - known)
    among = f" ({buckets:,} of them out-of-vocabulary buckets)" if buckets else ""
    return (
        f"column {name!r}: trainable is false, and {size - known:,} of {size:,} ids{among} have no "
        "pretrained vector, so they stay at random ones; give vectors for them, or "
        "initializer: zeros, or trainable: true"
    )


def path_of(spec: FeatureSpec, entry: Pretrained) -> pathlib.Path:
    """Where the file is, or the prefix of the checkpoint; either is there."""
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
                f"there is no file {str(path)!r}"
                f"{hint or '; correct the path, which starts in the folder of the spec'}"
            )
    elif not (path.is_file() or (path / "checkpoint").is_file() or _index(path).is_file()):
        beside = [pathlib.PurePath(file) for file in _files_beside(path)]
        prefixes = [file.stem for file in beside if file.suffix == ".index"]
        hint = nearest(path.name, prefixes, least=0.8)
        raise VectorFileError(
            f"there is no checkpoint {str(path)!r}: no file {_index(path).name!r} in its folder"
            f"{hint or '; correct the path, which starts in the folder of the spec'}"
        )
    elif path.suffix == ".index" or ".data-" in path.suffix:
        raise VectorFileError(
            f"{str(path)!r} is one file of a checkpoint; give what its files have in common, "
            f"{path.stem!r}"
        )
    return path


def words_of(spec: FeatureSpec, column: Embedding) -> list[str]:
    """The words of the vocabulary under a column, in the order of their ids."""
    category = _category(spec, column)
    assert isinstance(category, Vocabulary), "see check_entries"
    return category.row_names(spec)


def check_shape(spec: FeatureSpec, name: str, dtype: str, shape: tuple[int, ...]) -> None:
    """Raises VectorFileError unless an array has a row an id, as wide as the column.

    Nothing in an array says which id a row is of, so that another number of rows is the one sign
    of another vocabulary. Rows of out-of-vocabulary buckets may be missing in a file, as vectors
    that were learned elsewhere have none, but not in a checkpoint.
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
            f"got {dtype} {list(shape)}, expected floats [{rows}, {column.dimension}]: a row an id "
            f"in the order of the ids, and the column's dimension wide; make them so{text}"
        )


def is_array(entry: Pretrained) -> bool:
    """Whether the vectors are in an `.npy` file."""
    return entry.file is not None and entry.file.endswith(".npy")


def _is_text(entry: Pretrained) -> bool:
    return entry.file is not None and not is_array(entry)


def unreadable(path: pathlib.Path, error: OSError) -> VectorFileError:
    """What to say of a file that the system does not let us read."""
    return VectorFileError(f"{str(path)!r} cannot be read: {error.strerror or error}")


def none_known(path: pathlib.Path, words: int) -> VectorFileError:
    """What to say of a text file without any word of the vocabulary."""
    return VectorFileError(
        f"{str(path)!r} has none of the {words:,} words of the vocabulary; is it of another "
        "vocabulary, or written in another case?"
    )


def _look(spec: FeatureSpec, name: str) -> Looked:
    column, entry = embedding_of(spec, name)
    path, size = path_of(spec, entry), spec.size_of(column.source)
    try:
        if entry.checkpoint is not None:
            text = "is there; its tensor is looked at when a training starts"
            return Looked(name, entry.checkpoint, text)
        assert entry.file is not None
        if is_array(entry):
            dtype, shape = npy_array(path)
            check_shape(spec, name, dtype, shape)
            text = f"{shape[0]:,} of {size:,} ids have a vector (its numbers were not looked at)"
            return Looked(name, entry.file, text, frozen_warning(spec, name, shape[0]))
        ids = {word: i for i, word in enumerate(words_of(spec, column))}
        known = 0
        for vector in text_vectors(path, ids, column.dimension):
            known += vector.place is not None
            if vector.end >= _CHECKED_BYTES and vector.end < path.stat().st_size:
                text = f"its first {vector.end:,} bytes are right; the rest was not looked at"
                return Looked(name, entry.file, text)
    except OSError as error:
        raise unreadable(path, error) from error
    if not known:
        raise none_known(path, len(ids))
    text = f"{known:,} of {size:,} ids have a vector"
    return Looked(name, entry.file, text, frozen_warning(spec, name, known))


def _category(spec: FeatureSpec, column: Embedding) -> Optional[Column]:
    """The column whose ids they are: below an embedding, and below weights."""
    category = spec.columns.get(column.source)
    if category is None or category.weighted_by is None or category.ids_source is None:
        return category
    return spec.columns.get(category.ids_source)


def _index(prefix: pathlib.Path) -> pathlib.Path:
    return prefix.with_name(f"{prefix.name}.index")


def _files_beside(path: pathlib.Path) -> list[str]:
    """The names of the files in a path's folder, if there is one that can be read."""
    try:
        return sorted(file.name for file in path.parent.iterdir() if file.is_file())
    except OSError:
        return []
