"""`--mode=convert`: tables into TFRecord shards, as the flags say.

Connects the flags with `input_pipelines/prepare/convert`, which does the work. Imports no
TensorFlow.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Optional, TextIO

from estimator_kit.config import table_settings
from estimator_kit.config.of_modes import ConvertConfig
from estimator_kit.errors import ConfigError, NothingToDo
from estimator_kit.result import RunResult
from feature_specs.parser import parser
from input_pipelines.prepare.beam.flags import BeamFlagsError
from input_pipelines.prepare.convert import conversion, places
from input_pipelines.prepare.convert.folder import FolderError
from input_pipelines.reading import files


def run(config: ConvertConfig, tell: Callable[[str], None]) -> RunResult:
    """Runs the mode; see `run_conversion`."""
    tell(run_conversion(config))
    return RunResult(mode=config.mode)


def run_conversion(config: ConvertConfig) -> str:
    """Converts `config.convert_files`, and returns what to tell the user.

    Large data are converted by several processes, which import the program's main module again: a
    program of your own needs the usual `if __name__ == "__main__":` around what it runs.

    Raises:
      ConfigError: the folder holds something else, Beam does not know a flag, or the spec says
        otherwise how tables are written; nothing was touched.
      DataError: a file or row cannot be converted.
      NothingToDo: an earlier start had written everything; nothing was touched.
      OSError: a file cannot be written.
      SpecError: the spec cannot be used.
    """
    paths = files.expand(config.convert_files, flag="--convert_files", glob=places.glob)
    spec = parser.load(config.spec) if config.spec else None
    csv = table_settings.csv_options(config, spec, paths, written=True)
    try:
        result = conversion.convert(
            paths,
            directory=config.convert_dir,
            options=config.convert_options(),
            spec=spec,
            csv=csv,
            workers=config.convert_processes,
            beam=config.beam_flags(),
            on_progress=Progress(every_secs=config.log_every_secs),
        )
    except FolderError as error:
        raise ConfigError(f"--convert_dir: {error}") from error
    except BeamFlagsError as error:
        raise ConfigError(f"--beam_options: {error}") from error
    if result.already_done:
        raise NothingToDo(
            f"--convert_dir: {config.convert_dir!r} has all {len(result.shards):,} shards of this "
            "conversion, whole; nothing was touched"
        )
    return result.text()


class Progress:
    """Shows how far a conversion, or work like it, is, on a line of its own every few seconds.

    Args:
      every_secs: seconds between lines.
      what: that are made, as they are called.
      stream: where they go, standard error by default.
      clock: seconds that only grow; an argument so that tests need not wait.
    """

    def __init__(
        self,
        *,
        every_secs: float = 10.0,
        what: str = "shards",
        stream: Optional[TextIO] = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._every = every_secs
        self._what = what
        self._stream = stream if stream is not None else sys.stderr
        self._clock = clock
        self._started = self._shown = clock()
        self._rows = 0

    def __call__(self, rows: int, done: int, shards: int) -> None:
        """Adds rows that were read, when so many of the shards are there."""
        self._rows += rows
        now = self._clock()
        if now - self._shown < self._every:
            return
        self._shown = now
        rate = self._rows / (now - self._started)
        print(
            f"{done:,} of {shards:,} {self._what}, {self._rows:,} rows read, {rate:,.0f} rows/s",
            file=self._stream, flush=True,
        )  # fmt: skip
