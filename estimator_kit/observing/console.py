"""How the program writes to its user: lines of text or of JSON, and progress on a terminal.

    console.configure("text")           the program calls it once, before it works
    console.say("trained on 100 rows")  prints a result
    console.display()                   the progress display of the terminal, or None

`--log_format=text`: log lines have a timestamp if the output is not a terminal. On a terminal the
package rich shows the progress below them.
`--log_format=json`: every line is one JSON object with `time`, `level` and `message`. Lines of
progress and of evaluations also have their numbers, each under its name.

`ek.run` never calls `configure`: a Python program decides itself what happens to the records of the
logger `estimator_kit`. Imports no TensorFlow.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
import os
import re
import sys
import time
import types
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Optional, TextIO

from feature_specs.files import documents, urls

LogFormat = Literal["text", "json"]

# What TensorFlow's C++ code prints when it is imported, whatever its log level. It tells a user
# nothing: how its instructions round, and that a machine without a GPU has no GPU.
_IMPORT_NOTES = re.compile(
    rb"WARNING: All log messages before absl::InitializeLog"
    rb"|[IWE]0000 .*(port|cudart_stub|cuda_(dnn|blas|fft)|cpu_feature_guard|cuda_diagnostics)\.cc"
    rb"|[^ ]* *[^ ]*: [IWE] .*(port|cudart_stub|cuda_(dnn|blas|fft)|cpu_feature_guard|utils)\.cc"
    rb"|To enable the following instructions: "
)

_form: LogFormat = "text"
_display: Optional[Any] = None


def configure(log_format: LogFormat, *, timestamps: bool = False) -> None:
    """Sends log records to standard error, and shows progress there if it is a terminal.

    TensorFlow's notes and deprecation warnings are not shown: it calls all parts of an Estimator
    deprecated. Its other warnings and errors are.

    Args:
      log_format: text or json.
      timestamps: whether lines of text have a timestamp on a terminal, too. A server's lines are
        read later than they are written.
    """
    global _display
    # An error that C++ logs and that matters is also an exception.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    use(log_format)
    terminal = log_format == "text" and sys.stderr.isatty()
    _display = _Display() if terminal else None
    handler: logging.Handler = logging.StreamHandler()
    if terminal and not timestamps:
        handler = _AboveProgress()
        handler.setFormatter(logging.Formatter("%(message)s"))
    elif log_format == "json":
        handler.setFormatter(_Json())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S"))
    handler.addFilter(_with_urls)
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    logging.getLogger("estimator_kit").setLevel(logging.INFO)
    logging.captureWarnings(log_format == "json")
    logger = logging.getLogger("tensorflow")
    logger.setLevel(logging.WARNING)
    logger.addFilter(_not_deprecation)


def _not_deprecation(record: logging.LogRecord) -> bool:
    return "deprecat" not in record.getMessage().lower()


def _with_urls(record: logging.LogRecord) -> bool:
    """Shows the URLs of what was copied from a store."""
    record.msg, record.args = urls.shown(record.getMessage()), ()
    return True


def say(text: str, file: Optional[TextIO] = None) -> None:
    """Prints a result for a person; standard output by default."""
    text = urls.shown(text)
    print(_line("info", text) if _form == "json" else text, file=file or sys.stdout, flush=True)


def complain(text: str) -> None:
    """Prints an error to standard error."""
    text = urls.shown(text)
    print(_line("error", text) if _form == "json" else text, file=sys.stderr, flush=True)


def use(log_format: LogFormat) -> None:
    """Sets the format of `say` and `complain`. `configure` calls it."""
    global _form
    _form = log_format


def relay(task: str, line: str, width: int) -> None:
    """Prints a line that another process has printed, with the name of its task.

    Args:
      task: the name.
      line: the line, without its end.
      width: the number of characters for the name.
    """
    if _form == "text":
        print(f"[{task:<{width}}] {line}", flush=True)
        return
    try:
        fields = json.loads(line)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        fields = json.loads(_line("info", line))
    print(json.dumps({**fields, "task": task}), flush=True)


def finish() -> None:
    """Removes the progress from the terminal, whether or not the work has succeeded."""
    if _display is not None:
        _display.stop()


def display() -> Optional[Any]:
    """The progress display of the terminal; None if progress is written as lines."""
    return _display


@contextlib.contextmanager
def hidden_import_notes() -> Iterator[None]:
    """Hides what TensorFlow's C++ code prints in the block, if it is one of the known notes.

    A child process copies all other lines to standard error. So they are printed even if the
    import aborts this process.
    """
    if "tensorflow" in sys.modules:
        yield
        return
    reading, writing = os.pipe()
    sys.stderr.flush()
    child = os.fork()
    if not child:
        os.close(writing)
        _copy(reading, _form)
        os._exit(0)
    os.close(reading)
    real = os.dup(2)
    os.dup2(writing, 2)
    os.close(writing)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(real, 2)  # Closes the last writing end, so the child ends.
        os.close(real)
        os.waitpid(child, 0)


def _copy(reading: int, form: LogFormat) -> None:
    with open(reading, "rb") as lines:
        for line in lines:
            if _IMPORT_NOTES.match(line):
                continue
            if form == "json":
                text = line.decode(errors="replace").rstrip("\n")
                line = (_line("warning", text) + "\n").encode()
            os.write(2, line)


def _line(
    level: str,
    message: str,
    *,
    created: Optional[float] = None,
    fields: Mapping[str, Any] = types.MappingProxyType({}),
) -> str:
    """One JSON object. A number that is NaN or infinite becomes null, which JSON can write."""
    now = datetime.datetime.fromtimestamp(
        time.time() if created is None else created, datetime.timezone.utc
    )
    entry = {"time": now.isoformat(timespec="milliseconds"), "level": level, "message": message}
    return json.dumps(documents.plain({**entry, **fields}))


class _Json(logging.Formatter):
    """Formats a record as one JSON object. `extra={"numbers": {...}}` adds fields."""

    def format(self, record: logging.LogRecord) -> str:
        fields = dict(getattr(record, "numbers", {}))
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        level = record.levelname.lower()
        return _line(level, record.getMessage(), created=record.created, fields=fields)


class _AboveProgress(logging.Handler):
    """Prints records on a terminal, above the progress."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            assert _display is not None
            _display.print(self.format(record))
        except Exception:
            self.handleError(record)


class _Display:
    """The progress of all work that is going on, at the bottom of the terminal."""

    def __init__(self) -> None:
        import rich.console
        import rich.progress

        self._progress = rich.progress.Progress(
            rich.progress.TextColumn("{task.description:<8}", markup=False),
            rich.progress.BarColumn(bar_width=24),
            rich.progress.TextColumn("{task.fields[text]}", markup=False),
            console=rich.console.Console(stderr=True, highlight=False),
            transient=True,
        )

    def print(self, text: str) -> None:
        self._progress.console.print(text, markup=False, emoji=False, soft_wrap=True)

    def begin(self, phase: str, total: Optional[float]) -> Any:
        self._progress.start()
        return self._progress.add_task(phase, total=total, text="")

    def update(
        self, task: Any, done: float, total: Optional[float], text: str, *, now: bool
    ) -> None:
        """Changes a bar. The terminal shows it at once if `now`, else in a tenth of a second."""
        self._progress.update(task, completed=done, total=total, text=text, refresh=now)

    def end(self, task: Any) -> None:
        self._progress.remove_task(task)
        if not self._progress.tasks:
            self._progress.stop()

    def stop(self) -> None:
        self._progress.stop()
