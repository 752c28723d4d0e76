"""A process that has imported TensorFlow once, and forks the process of each trial from it.

    with ForkServer() as server:
        process = server.start(["--flagfile=trial.flags"], "log.txt")
        while process.poll() is None: ...

An import of TensorFlow and of the kit takes 3 to 8 seconds, more than many trials of a small table
train. The server imports both, and computes nothing: it makes no session and starts no thread of
TensorFlow. So a forked process is like a new one that has just imported them, and ends without
the shutdown of Python. Each trial still has its own process: its memory is free after its end, and
if it breaks, it breaks nothing else.

The search writes a line of JSON to the server for each request, and the server answers with a line
for each process that ends. If the search ends, even by SIGKILL, its server ends, and the kernel
kills the trials. Only Linux does that, so other systems start a new program for each trial; see
`trial_process`. Importing this module imports no TensorFlow.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Optional

from estimator_kit.distributed import launcher
from estimator_kit.observing import console

_Main = Callable[[Sequence[str]], int]

# The exit status of a process whose server has died with it.
_LOST = -signal.SIGKILL


# The server as a program. This module is below the main module, so it gets it as an argument.
_PROGRAM = f"from estimator_kit import main; import {__name__} as kit; kit.serve(main)"


class ForkedProcess:
    """A forked process, with the methods of `subprocess.Popen` that a search uses."""

    def __init__(self, server: ForkServer, key: int):
        self._server, self._key = server, key

    def poll(self) -> Optional[int]:
        """The exit status, or minus the signal that ended it; None while it runs."""
        return self._server.status(self._key)

    def terminate(self) -> None:
        self._server.send({"signal": int(signal.SIGTERM), "key": self._key})

    def kill(self) -> None:
        self._server.send({"signal": int(signal.SIGKILL), "key": self._key})


class ForkServer:
    """The server, which starts with `warm` or the first process. If it dies, the next process
    starts another.

    Not for several threads.
    """

    def __init__(self) -> None:
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._running: set[int] = set()
        self._codes: dict[int, int] = {}
        self._unread = b""
        self._count = 0

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def start(self, arguments: Sequence[str], log: str) -> ForkedProcess:
        """Starts the program with these arguments; its output is appended to the file `log`."""
        self.warm()
        self._count += 1
        self._running.add(self._count)
        self.send({"key": self._count, "arguments": list(arguments), "log": os.path.abspath(log)})
        return ForkedProcess(self, self._count)

    def warm(self) -> None:
        """Starts the server, if it does not run, so that it imports TensorFlow in the meantime."""
        self._read()
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, sys.argv[0]],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # The terminal sends Ctrl-C only to the search.
                preexec_fn=launcher.in_child(0),
            )

    def send(self, request: dict[str, Any]) -> None:
        """Sends a request. A server that has died has no processes, so nothing is to do."""
        if self._process is None or self._process.stdin is None:
            return
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()

    def status(self, key: int) -> Optional[int]:
        """How a process has ended; None while it runs."""
        self._read()
        return self._codes.get(key)

    def close(self) -> None:
        """Ends the server, and with it the processes that still run."""
        if self._process is not None:
            self._process.kill()
            self._lose()

    def _read(self) -> None:
        """Reads what the server has written, without waiting."""
        process = self._process
        if process is None or process.stdout is None:
            return
        output = process.stdout.fileno()
        while select.select([output], [], [], 0)[0]:
            received = os.read(output, 65536)
            if not received:
                self._lose()
                return
            *lines, self._unread = (self._unread + received).split(b"\n")
            for line in lines:
                key, code = json.loads(line)
                self._codes[key] = code
                self._running.discard(key)

    def _lose(self) -> None:
        process, self._process, self._unread = self._process, None, b""
        if process is not None:
            process.communicate()
        self._codes.update(dict.fromkeys(self._running, _LOST))
        self._running.clear()


def serve(main: Any) -> NoReturn:
    """The server. The argument of its command is the name of the program, for messages.

    Args:
      main: the module `estimator_kit.main`.
    """
    sys.argv = sys.argv[1:]
    answers = os.dup(1)
    os.dup2(2, 1)
    with console.hidden_import_notes():
        main.load("train_and_evaluate")
    children: dict[int, int] = {}
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    own = (answers, woken, wake)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    unread = b""
    while True:
        ready, _, _ = select.select([0, woken], [], [])
        if woken in ready:
            with contextlib.suppress(BlockingIOError):
                while os.read(woken, 4096):
                    pass
        _report_ended(children, answers)
        if 0 not in ready:
            continue
        received = os.read(0, 65536)
        if not received:  # The search has ended.
            os._exit(0)
        *lines, unread = (unread + received).split(b"\n")
        for line in lines:
            request = json.loads(line)
            if "signal" not in request:
                child = _fork(main.main, request["arguments"], request["log"], own)
                children[child] = request["key"]
                continue
            for child, key in children.items():
                if key == request["key"]:  # Nobody has waited for it, so the id is still its own.
                    os.kill(child, request["signal"])


def _report_ended(children: dict[int, int], answers: int) -> None:
    while children:
        child, status = os.waitpid(-1, os.WNOHANG)
        if not child:
            return
        answer = [children.pop(child), os.waitstatus_to_exitcode(status)]
        try:
            os.write(answers, json.dumps(answer).encode() + b"\n")
        except OSError:  # The search has ended.
            os._exit(0)


def _fork(main: _Main, arguments: Sequence[str], log: str, own: Sequence[int]) -> int:
    server = os.getpid()
    with warnings.catch_warnings():
        # NumPy's library has threads, which it handles in a fork. TensorFlow has none yet.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        return child
    code = 70
    try:
        _become_child(log, server, own)
        code = main([sys.argv[0], *arguments])
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _become_child(log: str, server: int, own: Sequence[int]) -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    launcher.in_child(0)()
    if os.getppid() != server:  # It has ended before the kernel could watch it.
        os._exit(1)
    os.setsid()
    for each in own:
        os.close(each)
    for target, name, mode in ((0, os.devnull, os.O_RDONLY), (1, log, _APPEND)):
        opened = os.open(name, mode, 0o666)
        os.dup2(opened, target)
        os.close(opened)
    os.dup2(1, 2)


_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND
