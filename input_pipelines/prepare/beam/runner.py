"""Pieces of work spread by Apache Beam, on any of its runners.

    results = run(work, common, pieces, folder=folder, flags=["--runner=DirectRunner"])

The pipeline has one element a piece and no more to do than to call `work(common, piece, attempt)`.
All else goes through a folder that this program and the workers reach: what is common to all
pieces, the pieces, and the result of each, which Beam has no way to hand to the program that
started it. So the graph of the pipeline has a few bytes a piece, however large they are, and pieces
and results are what the caller makes of them: bytes, never pickled.

A runner may give a piece to two workers, or to another one after a failure. So what is written is
written under a name of its own and renamed, and `attempt` is there for `work` to do the same: it
has to write the same bytes whenever it does the same piece.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import io
import json
import logging
import os
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Optional

from feature_specs.errors import nearest
from input_pipelines.errors import DataError, MissingPackageError
from input_pipelines.prepare.beam.flags import BeamFlagsError, runs_here, value
from input_pipelines.prepare.convert import places

# What is common, a piece, and what temporary names end in -> the result.
Work = Callable[[bytes, bytes, str], bytes]

# Files of a run, and what the files of a piece end in.
_COMMON, _PIECES, _FAILED = "common", "pieces", "failed"
_RESULT, _TROUBLE = ".result", ".trouble"

# Errors of the data or of the installation, which no second attempt would mend.
_FINAL: dict[str, type[Exception]] = {
    "DataError": DataError,
    "MissingPackageError": MissingPackageError,
}


def library(part: str = "") -> Any:
    """The module `apache_beam`, or one of its parts.

    Raises:
      MissingPackageError: it is not installed.
    """
    try:
        with _quiet():
            return importlib.import_module(f"apache_beam.{part}" if part else "apache_beam")
    except ImportError as error:
        raise MissingPackageError(
            "--beam_options needs the package 'apache-beam'; "
            "install it with: pip install estimator-kit[beam]"
        ) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Leaves out what Beam's parts say of packages that they could use, and of their versions."""
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
    """Raises an error unless a pipeline can be made with these flags, for these files and folders.

    Raises:
      BeamFlagsError: Beam or the runner does not know a flag, or misses one; or a path means
        something else to workers on other machines.
      MissingPackageError: Beam, or what it needs for the runner, is not installed.
    """
    _pipeline(flags)
    named = [path for path in (*paths, value(flags, "temp_location")) if path]
    relative = [path for path in named if places.is_local(path) and not os.path.isabs(path)]
    if relative and not runs_here(flags):
        raise BeamFlagsError(
            f"{relative[0]!r} depends on the folder that this program was started in, and the "
            "workers of the pipeline have another one; write the path out, from / or gs:// on"
        )


@contextlib.contextmanager
def scratch(flags: Sequence[str]) -> Iterator[str]:
    """A folder that this program and the workers reach, gone at the end: inside --temp_location.

    Raises:
      BeamFlagsError: workers on other machines, and no --temp_location.
    """
    place = value(flags, "temp_location")
    if not place and not runs_here(flags):
        raise BeamFlagsError(
            "--temp_location is missing; name a folder that the workers and this program reach, "
            "for what they find, as --temp_location=gs://bucket/temporary"
        )
    if not place:
        with tempfile.TemporaryDirectory() as folder:
            yield folder
        return
    folder = os.path.join(place, f"estimator-kit-{uuid.uuid4().hex}")
    places.make_folder(folder)
    try:
        yield folder
    finally:
        places.remove_folder(folder)


def run(
    work: Work, common: bytes, pieces: Iterable[bytes], *, folder: str, flags: Sequence[str]
) -> Iterator[bytes]:
    """Does all pieces, and gives their results in the order of the pieces.

    Args:
      work: a function of a module, which workers import; called once a piece, or more often.
      common: what all pieces have in common.
      pieces: each a piece of work.
      folder: where a folder of its own is made; this program and the workers reach it. What is
        left of that folder after an error is the caller's to remove.
      flags: of Beam, as `flags.split` has them.

    Raises:
      DataError, MissingPackageError, OSError: as `work` raised it on a worker. The first two end
        the work; what the runner does about the last, as to try again, is its own affair.
      RuntimeError: the runner did not do all of the work; what it raises may be of other types.
    """
    place = os.path.join(folder, f"beam-{uuid.uuid4().hex}")
    places.make_folder(place)
    numbers = _write(place, common, pieces)
    if numbers:
        pipeline = _pipeline(flags)
        _run(pipeline, _Job(work, place), numbers)
    for number, _, _ in numbers:
        result = places.read(os.path.join(place, f"{number}{_RESULT}"))
        if result is None:
            raise RuntimeError(f"the pipeline ended, and piece {number} of its work was not done")
        yield result
    places.remove_folder(place)


def _write(place: str, common: bytes, pieces: Iterable[bytes]) -> list[tuple[int, int, int]]:
    """Writes what workers read; gives the number of each piece, where it starts, and its size."""
    numbers = []
    with places.open_file(os.path.join(place, _COMMON), "wb") as file:
        file.write(common)
    with places.open_file(os.path.join(place, _PIECES), "wb") as file:
        start = 0
        for number, piece in enumerate(pieces):
            file.write(piece)
            numbers.append((number, start, len(piece)))
            start += len(piece)
    return numbers


def _pipeline(flags: Sequence[str]) -> Any:
    """A pipeline of nothing, whose flags were found to be right."""
    beam = library()
    options = library("options.pipeline_options").PipelineOptions
    known = set(options([]).get_all_options())
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            given = options(flags).get_all_options(retain_unknown_options=True)
    except SystemExit as error:
        raise BeamFlagsError(said.getvalue().strip().rpartition("error: ")[2]) from error
    for name in given:
        if name not in known:
            raise BeamFlagsError(f"Beam has no flag --{name}{nearest(name, sorted(known))}")
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
            # Started again, this program would have the one that goes on beside it.
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
    """The error that a worker noted as the end of the work."""
    content = places.read(os.path.join(place, _FAILED))
    if content is None:
        return None
    noted = json.loads(content)
    return _FINAL[noted["kind"]](noted["text"])


def _trouble(place: str) -> Optional[OSError]:
    """The error of a file that a worker noted of a piece that was not done later on, either."""
    names = set(places.names_in(place))
    for name in sorted(names):
        number = name.removesuffix(_TROUBLE)
        if name != number and f"{number}{_RESULT}" not in names:
            return OSError(*json.loads(places.read(os.path.join(place, name)) or b"[]"))
    return None


# --- On a worker ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Job:
    """What to do, and the folder of the run."""

    work: Work
    place: str


def _do(job: _Job, number: tuple[int, int, int]) -> None:
    """Does one piece; or nothing when another one has shown that all is in vain."""
    if places.exists(os.path.join(job.place, _FAILED)):
        return
    which, start, size = number
    with places.open_file(os.path.join(job.place, _PIECES), "rb") as file:
        file.seek(start)
        piece = file.read(size)
    attempt = f".{uuid.uuid4().hex}"

    def write(name: str, content: bytes) -> None:
        path = os.path.join(job.place, name)
        places.write(path, content, path + attempt)

    try:
        result = job.work(_common(job.place), piece, attempt)
    except (DataError, MissingPackageError) as error:
        kind = next(kind for kind, of_kind in _FINAL.items() if isinstance(error, of_kind))
        write(_FAILED, json.dumps({"kind": kind, "text": str(error)}).encode())
        return
    except OSError as error:
        noted = error.args if error.errno is None else (error.errno, error.strerror)
        noted += () if error.filename is None else (str(error.filename),)
        write(f"{which}{_TROUBLE}", json.dumps(noted, default=str).encode())
        raise
    write(f"{which}{_RESULT}", result)


@functools.lru_cache(1)
def _common(place: str) -> bytes:
    return places.read(os.path.join(place, _COMMON)) or b""
