"""The program: command line in, exit status out. `run.py` and `estimator-kit` call `program`.

It prints an error that a user can act on as one message; only a bug shows a traceback. TensorFlow
is imported after the flags have been checked.
"""

from __future__ import annotations

import functools
import gc
import logging
import os
import select
import sys
from collections.abc import Sequence
from typing import NoReturn, Optional

from estimator_kit import commands, exit_codes
from estimator_kit.commands import in_stores
from estimator_kit.commands.command_line import asked_help, check_read, with_mode
from estimator_kit.config.areas.program import TRAINING_MODES
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.flags import config_from_flags, read_command_line
from estimator_kit.distributed import launcher
from estimator_kit.observing import console, failures


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs one command line, `sys.argv` by default, and returns the exit status.

    If nobody reads standard output any more, as with `| head`, it ends silently.
    """
    code = exit_codes.DONE
    try:
        code = _main(list(sys.argv if arguments is None else arguments))
        sys.stdout.flush()
        return code
    except BrokenPipeError as error:
        if not _reader_is_gone():
            return failures.tell(error)
        # Python must not fail when it writes its buffer at the end of the process.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return code


def _reader_is_gone() -> bool:
    """Whether the other end of standard output, a pipe, is closed."""
    try:
        watch = select.poll()
        watch.register(sys.stdout.fileno(), select.POLLOUT)
        return any(event & select.POLLERR for _, event in watch.poll(0))
    except (OSError, ValueError, AttributeError):  # Standard output is not a file.
        return False


def _main(arguments: list[str]) -> int:
    style = "kit"
    # Now, so that an error in another flag is written as JSON, too.
    console.use("json" if "--log_format=json" in arguments else "text")
    try:
        arguments_with_mode = with_mode(arguments[1:])
        with in_stores.local_flagfiles(arguments_with_mode) as local:
            line = read_command_line(local)
        text = asked_help(line)
        if text is not None:
            print(text)
            return exit_codes.DONE
        config = config_from_flags(line.values)
        style = config.exit_code_style
        check_read(line, config.mode)
        return _run(config, arguments_with_mode)
    except BrokenPipeError:
        raise
    except Exception as error:  # Only here do errors become exit statuses.
        console.finish()
        return exit_codes.styled(failures.tell(error), style)
    except KeyboardInterrupt:
        console.finish()
        console.complain(exit_codes.MEANING[exit_codes.INTERRUPTED])
        return exit_codes.INTERRUPTED
    finally:
        console.finish()


def program() -> NoReturn:
    """Runs `main` as a process, and ends it."""
    code = main()
    servers = sys.modules.get("estimator_kit.distributed.servers")
    serving = sys.modules.get("estimator_kit.serving.server")
    is_loading = serving is not None and any(thread.is_alive() for thread in serving.LEFT)
    if is_loading or (servers is not None and servers.STARTED):
        # A TensorFlow server, and a load of a model, cannot be stopped. When Python removes what
        # their threads use, some abort the process, and the exit status would be the status of a
        # signal.
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _run(config: ExperimentConfig, arguments: Sequence[str]) -> int:
    console.use(config.log_format)
    if config.launch_local and config.mode in TRAINING_MODES:
        return launcher.launch(config, arguments)
    serves = config.mode == "serve" and config.serving_config_dir is None
    console.configure(config.log_format, timestamps=serves)
    # If answers go to standard output, what is for people goes to standard error.
    to_stderr = config.mode == "predict" and config.predict_dir is None
    to_stderr |= config.mode == "evaluate" and config.model_dir is None
    people = sys.stderr if to_stderr else sys.stdout
    with console.hidden_import_notes():
        load(config.mode)
    commands.run(config, functools.partial(console.say, file=people), answers=sys.stdout)
    return exit_codes.DONE


def load(mode: str) -> None:
    """Imports what a mode needs; TensorFlow without garbage collection, which saves a second.

    An import makes hundreds of thousands of objects and no garbage. Python would search all of them
    during the import, in later collections, and when the process ends.
    """
    if "tensorflow" in sys.modules or not gc.isenabled():
        commands.load(mode)
        return
    gc.disable()
    try:
        commands.load(mode)
    finally:
        gc.freeze()
        gc.enable()
