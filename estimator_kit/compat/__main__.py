"""Runs an old program unchanged: `import estimator_kit.compat` comes before its first line.

    python -m estimator_kit.compat PROGRAM.py arguments...
    python -m estimator_kit.compat --tf1 -m MODULE arguments...

The program sees what it sees under `python PROGRAM.py arguments...`: its `sys.argv`, its folder as
the first entry of `sys.path`, `__name__ == "__main__"`, and its exit status. This module reads only
the arguments before the program, and never changes the program's files.
"""

from __future__ import annotations

import argparse
import os
import runpy
import shutil
import sys
import zipfile
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any

_NAME = f"python -m {__package__}"

_EPILOG = f"""\
examples:
  {_NAME} train.py --model_dir=runs/1
  {_NAME} --tf1 run_classifier.py --do_train=true
  {_NAME} --tf1 -m my_package.trainer --config=a.json
  {_NAME} --tf1 t2t-trainer --problem=...    (an installed program)
"""


def parser() -> argparse.ArgumentParser:
    """The arguments of the launcher, which stand before the program."""
    made = argparse.ArgumentParser(
        prog=_NAME,
        description="Runs a program that needs tf.estimator, TPUEstimator or TensorFlow 1 on "
        "TensorFlow 2.15 to 2.21. The program is not changed.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "--tf1",
        action="store_true",
        help="TensorFlow 1: `import tensorflow as tf` gives tf.compat.v1 with tf.contrib, and the "
        "behavior of TensorFlow 2 is off",
    )
    made.add_argument("-m", dest="module", metavar="MODULE", help="run a module, as python -m does")
    made.add_argument("rest", nargs=argparse.REMAINDER, metavar="PROGRAM.py arguments...")
    return made


def main(arguments: list[str]) -> None:
    """Runs the program in this process."""
    own, rest, module = _split(arguments)
    options = parser().parse_args([*own, *(["-m", module] if module else [])])
    if not module and not rest:
        parser().error("expected PROGRAM.py or -m MODULE, got neither")
    program = "" if module else _path(rest[0])
    if options.tf1:
        from . import tf1

        tf1.install()
    # Not run_path and run_module, which put this module back at the end: threads and atexit
    # functions of the program still need its module.
    sys.modules["__main__"] = main_module = ModuleType("__main__")
    if module:
        sys.argv = [module, *rest]
        runpy._run_module_as_main(module)  # type: ignore[attr-defined]
        return
    sys.argv = [program, *rest[1:]]
    # Python has put the working directory first, unless an option such as -P forbids it.
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        sys.path[0] = os.path.dirname(os.path.realpath(program))
    if os.path.isdir(program) or zipfile.is_zipfile(program):
        runpy.run_path(program, run_name="__main__")  # It has a __main__.py.
        return
    loader = _Source("__main__", os.path.abspath(program))
    main_module.__file__, main_module.__loader__ = loader.path, loader
    main_module.__spec__ = None  # As in any program.
    loader.exec_module(main_module)


class _Source(SourceFileLoader):
    """Reads a program, and writes no file next to it."""

    def set_data(self, path: str, data: Any, *, _mode: int = 0o666) -> None:
        pass


def _path(program: str) -> str:
    """The file of a program, also of an installed one such as `t2t-trainer`."""
    if os.path.exists(program):
        return program
    installed = shutil.which(program) if os.path.basename(program) == program else None
    if installed is None:
        parser().error(f"{program}: expected the file of a program; it does not exist")
    with open(installed, "rb") as file:
        if b"python" not in file.readline():
            parser().error(
                f"{program}: expected a Python program, got {installed}. The file of the program "
                "comes first, without `python`"
            )
    return installed


def _split(arguments: list[str]) -> tuple[list[str], list[str], str]:
    """The arguments of the launcher and of the program, and the module if there is one.

    argparse would take `--help` for an argument of the launcher, also after the program.
    """
    for place, argument in enumerate(arguments):
        if argument == "-m" and place + 1 < len(arguments):
            return arguments[:place], arguments[place + 2 :], arguments[place + 1]
        if argument.startswith("-m") and argument != "-m":
            return arguments[:place], arguments[place + 1 :], argument[2:]
        if not argument.startswith("-"):
            return arguments[:place], arguments[place:], ""
    return arguments, [], ""


if __name__ == "__main__":
    main(sys.argv[1:])
