"""Runs pieces of work with Apache Beam, on any of its runners, and parses the flags of a pipeline.

    flags = split("--runner=DataflowRunner --project=ads --experiments='a b'")
    # ("--runner=DataflowRunner", "--project=ads", "--experiments=a b")
    results = run(work, common, pieces, folder=folder, flags=flags)

The pipeline has one element for each piece, and only calls `work(common, piece)`. All data go
through a folder that this program and the workers can reach: the data that all pieces share, the
pieces, and their results, because Beam cannot return results to the program that started it. So the
graph of the pipeline has only a few bytes for each piece, even if pieces are large. Pieces and
results are bytes that the caller encodes. They are never pickled.

A runner may give a piece to two workers, or to another worker after a failure. So each file appears
whole, and `work` must always write the same bytes for the same piece.

`split`, `value` and `runs_here` check flags as far as possible without Beam, which is imported only
by `check` and `run`. `check` asks Beam for the rest.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import io
import logging
import os
import shlex
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Optional, Union

from feature_specs.errors import nearest
from feature_specs.files import documents, file_systems, staged
from input_pipelines.errors import DataError, MissingPackageError


class BeamFlagsError(ValueError):
    """Flags that Beam does not accept. Nothing was run."""


def split(text: str) -> tuple[str, ...]:
    """Splits a text into flags at spaces, with quotes as in a shell.

    Raises:
      BeamFlagsError: a part is not a flag, or --runner is missing. Beam would silently ignore the
        former, and run on this machine without the latter.
    """
    try:
        flags = tuple(shlex.split(text))
    except ValueError as error:
        raise BeamFlagsError(f"got {text!r}: {error}") from error
    for flag in flags:
        if not flag.startswith("--") or flag.startswith(("--=", "---")) or flag == "--":
            raise BeamFlagsError(f"{flag!r} is not a flag. Write it as --name=value or --name")
    if not value(flags, "runner"):
        raise BeamFlagsError(
            "--runner is missing. Name the runner of the pipeline, such as --runner=DirectRunner "
            "(this machine) or --runner=DataflowRunner"
        )
    return flags


def value(flags: Sequence[str], name: str) -> str:
    """The value of the last --name=value; empty if the flag is not given."""
    start = f"--{name}="
    return next((flag[len(start) :] for flag in reversed(flags) if flag.startswith(start)), "")


def runs_here(flags: Sequence[str]) -> bool:
    """Whether the pipeline runs on this machine, so that its workers can read local files."""
    runner = value(flags, "runner").rpartition(".")[2].lower().removesuffix("runner")
    return runner in ("direct", "switchingdirect", "bundlebaseddirect", "fnapi", "prism")


# A function of the shared data and a piece. Returns the result.
Work = Callable[[bytes, bytes], bytes]

# The files of a run, and the suffixes of the files of a piece.
_COMMON, _PIECES, _FAILED = "common", "pieces", "failed"
_RESULT, _TROUBLE = ".result", ".trouble"

# Errors of the data or of the installation. Another attempt would fail, too.
_FINAL: dict[str, type[Exception]] = {
    "DataError": DataError,
    "MissingPackageError": MissingPackageError,
}


class _Failure(documents.Document):
    """A final error: the name of its class, see `_FINAL`, and its text."""

    kind: str
    text: str


class _Trouble(documents.Document):
    """The arguments of an OSError."""

    arguments: list[Union[int, str]]


def library(part: str = "") -> Any:
    """The module `apache_beam`, or one of its parts.

    Raises:
      MissingPackageError: Beam is not installed.
    """
    try:
        with _quiet():
            return importlib.import_module(f"apache_beam.{part}" if part else "apache_beam")
    except ImportError as error:
        raise MissingPackageError(
            "--beam_options needs the package 'apache-beam'; "
            "install it with: pip install 'estimator-kit[beam]'"
        ) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hides Beam's messages about optional packages and their versions."""
    logger = logging.getLogger()
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def check(flags: Sequence[str], paths: Sequence[str]) -> None:
    """Raises an error unless a pipeline can be made with these flags, files and folders.

    Raises:
      BeamFlagsError: Beam or the runner does not know a flag, or needs another one; or a path is
        relative and workers run on other machines.
      MissingPackageError: Beam, or what it needs for the runner, is not installed.
    """
    _pipeline(flags)
    named = [path for path in (*paths, value(flags, "temp_location")) if path]
    relative = [path for path in named if file_systems.is_local(path) and not os.path.isabs(path)]
    if relative and not runs_here(flags):
        raise BeamFlagsError(
            f"{relative[0]!r} is a relative path, which the workers of the pipeline cannot find. "
            "Use a full path that starts with / or a scheme such as gs://"
        )


@contextlib.contextmanager
def scratch(flags: Sequence[str]) -> Iterator[str]:
    """A temporary folder, inside --temp_location, that this program and the workers can reach.

    Raises:
      BeamFlagsError: workers run on other machines, but --temp_location is missing.
    """
    place = value(flags, "temp_location")
    if not place and not runs_here(flags):
        raise BeamFlagsError(
            "--temp_location is missing. Name a folder for results that both the workers and this "
            "program can reach, such as --temp_location=gs://bucket/temporary"
        )
    if not place:
        with tempfile.TemporaryDirectory() as folder:
            yield folder
        return
    folder = os.path.join(place, f"estimator-kit-{uuid.uuid4().hex}")
    file_systems.make_folder(folder)
    try:
        yield folder
    finally:
        file_systems.remove_folder(folder)


def run(
    work: Work, common: bytes, pieces: Iterable[bytes], *, folder: str, flags: Sequence[str]
) -> Iterator[bytes]:
    """Runs all pieces, and yields their results in the order of the pieces.

    Args:
      work: a function of a module that workers can import. Called at least once for each piece.
      common: the data that all pieces share.
      pieces: the pieces of work.
      folder: a folder that this program and the workers can reach. The run makes a new folder
        inside it. After an error, the caller must remove that folder.
      flags: Beam's flags, as `flags.split` returns them.

    Raises:
      DataError, MissingPackageError, OSError: `work` raised this error on a worker. The first two
        end the work. After an OSError, the runner decides whether to try again.
      RuntimeError: the runner did not do all of the work. The runner may also raise other errors.
    """
    place = os.path.join(folder, f"beam-{uuid.uuid4().hex}")
    file_systems.make_folder(place)
    numbers = _write(place, common, pieces)
    if numbers:
        pipeline = _pipeline(flags)
        _run(pipeline, _Job(work, place), numbers)
    for number, _, _ in numbers:
        result = file_systems.read(os.path.join(place, f"{number}{_RESULT}"))
        if result is None:
            raise RuntimeError(f"the pipeline ended without doing piece {number} of its work")
        yield result
    file_systems.remove_folder(place)


def _write(place: str, common: bytes, pieces: Iterable[bytes]) -> list[tuple[int, int, int]]:
    """Writes the files for workers; returns the number, the start and the size of each piece."""
    numbers = []
    with file_systems.open_file(os.path.join(place, _COMMON), "wb") as file:
        file.write(common)
    with file_systems.open_file(os.path.join(place, _PIECES), "wb") as file:
        start = 0
        for number, piece in enumerate(pieces):
            file.write(piece)
            numbers.append((number, start, len(piece)))
            start += len(piece)
    return numbers


def _pipeline(flags: Sequence[str]) -> Any:
    """An empty pipeline with checked flags."""
    beam = library()
    options = library("options.pipeline_options").PipelineOptions
    usual = set(options([]).get_all_options())
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            parsed = options(flags).get_all_options(retain_unknown_options=True)
    except SystemExit as error:
        raise BeamFlagsError(said.getvalue().strip().rpartition("error: ")[2]) from error
    for name in parsed:
        if name not in usual:
            raise BeamFlagsError(f"Beam has no flag --{name}{nearest(name, sorted(usual))}")
    try:
        with _quiet():
            return beam.Pipeline(options=options(flags))
    except ImportError as error:
        raise MissingPackageError(f"the runner of the pipeline cannot be used: {error}") from error
    except (ValueError, AttributeError) as error:
        raise BeamFlagsError(str(error)) from error


def _run(pipeline: Any, job: _Job, numbers: Sequence[tuple[int, int, int]]) -> None:
    beam = library()
    (
        pipeline
        | "Pieces" >> beam.Create(numbers)
        | "Spread" >> beam.Reshuffle()
        | "Do" >> beam.Map(functools.partial(_do, job))
    )
    try:
        result = pipeline.run()
        try:
            result.wait_until_finish()
        except BaseException:
            # Otherwise the pipeline would continue, even if the user starts a new one.
            with contextlib.suppress(Exception):
                result.cancel()
            raise
    except Exception as error:
        failure = _failed(job.place) or _trouble(job.place)
        if failure is not None:
            raise failure from error
        raise
    failure = _failed(job.place)
    if failure is not None:
        raise failure


def _failed(place: str) -> Optional[Exception]:
    """The final error that a worker has recorded, if any."""
    failure = _Failure.load(os.path.join(place, _FAILED))
    return None if failure is None else _FINAL[failure.kind](failure.text)


def _trouble(place: str) -> Optional[OSError]:
    """An OSError that a worker has recorded for a piece that was never finished, if any."""
    names = set(file_systems.names_in(place))
    for name in sorted(names):
        number = name.removesuffix(_TROUBLE)
        if name != number and f"{number}{_RESULT}" not in names:
            trouble = _Trouble.load(os.path.join(place, name))
            return OSError(*(trouble.arguments if trouble is not None else ()))
    return None


# --- On a worker ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Job:
    """The function to call, and the folder of the run."""

    work: Work
    place: str


def _do(job: _Job, number: tuple[int, int, int]) -> None:
    """Does one piece. Does nothing if another piece has already failed with a final error."""
    if file_systems.exists(os.path.join(job.place, _FAILED)):
        return
    which, start, size = number
    with file_systems.open_file(os.path.join(job.place, _PIECES), "rb") as file:
        file.seek(start)
        piece = file.read(size)
    own = os.path.join(job.place, str(which))
    try:
        result = job.work(_common(job.place), piece)
    except (DataError, MissingPackageError) as error:
        kind = next(kind for kind, of_kind in _FINAL.items() if isinstance(error, of_kind))
        failure = _Failure(kind=kind, text=str(error))
        failure.save(os.path.join(job.place, _FAILED), durable=True)
        return
    except OSError as error:
        args = error.args if error.errno is None else (error.errno, error.strerror)
        args += () if error.filename is None else (error.filename,)
        arguments = [arg if isinstance(arg, int) else str(arg) for arg in args]
        _Trouble(arguments=arguments).save(own + _TROUBLE, durable=True)
        raise
    staged.write(own + _RESULT, result, durable=True)


@functools.lru_cache(1)
def _common(place: str) -> bytes:
    return file_systems.read(os.path.join(place, _COMMON)) or b""
