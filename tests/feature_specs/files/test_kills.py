"""Each operation on files, killed before and after each of its changes on disk.

A reader then finds the old state or the whole new one. The same operation, started again, leaves
the new state and nothing else.
"""

from __future__ import annotations

import builtins
import itertools
import os
import pathlib
import shutil
import signal
import sys
import traceback
from typing import ClassVar

import numpy as np
import pytest

from feature_specs.files import documents, jobs, owners, staged, versions
from feature_specs.files.shards import ShardFile

pytestmark = pytest.mark.no_tensorflow

TEXT = "a text that is as long as the old one"


class Kept(documents.Document):
    """A document."""

    text: str


def write(path, text):
    pathlib.Path(path).write_text(text)


def write_file(folder, durable=False):
    with staged.file(f"{folder}/a.txt", durable=durable) as temporary:
        write(temporary, TEXT)


def write_within(folder):
    os.makedirs(f"{folder}/_unfinished", exist_ok=True)
    staged.write(f"{folder}/a.txt", TEXT.encode(), within=f"{folder}/_unfinished", durable=True)
    shutil.rmtree(f"{folder}/_unfinished")


def write_folder(folder, durable=False):
    if not os.path.exists(f"{folder}/new"):
        with staged.folder(f"{folder}/new", durable=durable) as temporary:
            os.mkdir(f"{temporary}/deep")
            write(f"{temporary}/deep/a.txt", TEXT)


def save(folder):
    Kept(text=TEXT).save(f"{folder}/a.json")


def save_lines(folder):
    documents.save_lines(f"{folder}/a.jsonl", [Kept(text=TEXT), Kept(text="2")])


def publish(folder):
    if versions.numbers(folder)[-1] < 13:
        with versions.unnamed(folder) as temporary:
            write(f"{temporary}/saved_model.pb", TEXT)
            write(f"{temporary}/metrics.json", TEXT)
            versions.publish(temporary, folder)
    versions.remove_left(folder)


def remove(folder):
    if os.path.exists(f"{folder}/11"):
        staged.remove_folder(f"{folder}/11")
    versions.remove_left(folder)


class Plan(jobs.Plan):
    noun: ClassVar[str] = "work"
    called: ClassVar[dict[str, str]] = {"version": "the form"}

    names: ClassVar[tuple[str, ...]] = ("a", "b")


def work(folder):
    job = jobs.Job(f"{folder}/out", Plan(version=1, code="7"))
    with job.held():
        written = job.begin()
        if job.is_finished:
            return
        for name in sorted({"a", "b"} - set(written)):
            with ShardFile(job.folder, name, job.temporary) as shard:
                shard.write(np.frombuffer(TEXT.encode(), np.uint8), 1)
            written[name] = shard.written
        job.finish(jobs.Manifest(shards=[written[name] for name in ("a", "b")]))


def hold(folder):
    with owners.held(folder, heartbeat_secs=1e6) as held:
        held.renew()


OPERATIONS = {
    "a file": write_file,
    "a durable file": lambda folder: write_file(folder, durable=True),
    "a file within": write_within,
    "a folder": write_folder,
    "a durable folder": lambda folder: write_folder(folder, durable=True),
    "a document": save,
    "lines": save_lines,
    "publish": publish,
    "remove": remove,
    "an owner": hold,
}

# What a start finds.
OLD = {
    "a.txt": "old", "a.json": '{"text": "old"}', "a.jsonl": '{"text": "old"}\n',
    "11/saved_model.pb": "old", "12/saved_model.pb": "old",
    "lock.json": '{"user": "ann", "host": "elsewhere", "pid": 1, "token": "t", "since": 0.0, '
                 '"heartbeat": 0.0}',
}  # fmt: skip

# What a reader leaves out: temporary files, and locks.
UNREAD = (".tmp-", "_", "lock.json.")


def content(folder):
    """The files below a folder, and empty folders."""
    found = {}
    for path, folders, names in os.walk(folder):
        for name in names:
            file = os.path.join(path, name)
            found[os.path.relpath(file, folder)] = pathlib.Path(file).read_text()
        if not folders and not names:
            found[os.path.relpath(path, folder)] = "an empty folder"
    return found


def seen(folder):
    """What a reader finds."""
    found = {name: text for name, text in content(folder).items() if not name.startswith(UNREAD)}
    if found.get("lock.json") not in (None, OLD["lock.json"]):
        assert owners.read(f"{folder}/lock.json").pid > 1
        del found["lock.json"]  # Its owner is dead.
    return found


def make_mortal(number):
    """Kills this process at a number of an event: each change on disk has one before and one after.

    Changes are files and folders that are made, named, removed, or written to the disk.
    """
    events = itertools.count(1)

    def event():
        if next(events) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(place, name, changes=lambda *arguments: True):
        function = getattr(place, name)

        def watched(*arguments, **named):
            if not changes(*arguments):
                return function(*arguments, **named)
            event()
            result = function(*arguments, **named)
            event()
            return result

        setattr(place, name, watched)

    for name in ("replace", "rename", "link", "unlink", "remove", "mkdir", "rmdir", "fsync",
                 "truncate"):  # fmt: skip
        watch(os, name)
    watch(os, "open", lambda path, flags, *_: flags & os.O_CREAT)
    watch(builtins, "open", lambda path, mode="r", *_: mode[0] in "wax")
    watch(pathlib.Path, "write_text")


def killed(operation, folder, number):
    """Runs an operation in a process that is killed at an event; returns whether it was."""
    child = os.fork()
    if not child:
        try:
            make_mortal(number)
            operation(folder)
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_killed_job_goes_on_and_ends_once_all_is_there(tmp_path):
    """Shards appear one by one. A reader waits for `_SUCCESS`."""
    work(f"{tmp_path}/0")
    new, done = content(f"{tmp_path}/0"), set()
    for number in itertools.count(1):
        folder = f"{tmp_path}/{number}"
        was_killed = killed(work, folder, number)
        found = content(folder) if os.path.exists(folder) else {}
        done.add("out/_SUCCESS" in found)
        if "out/_SUCCESS" in found:
            assert new.items() <= found.items(), number
        if was_killed:
            work(folder)
        assert content(folder) == new, number
        if not was_killed:
            break
    assert number > 20 and done == {True, False}


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_kill_at_any_change_leaves_the_old_state_or_the_new_one(name, tmp_path):
    def prepared(number):
        folder = tmp_path / str(number)
        for path, text in OLD.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            write(folder / path, text)
        return str(folder)

    finished = prepared(0)
    OPERATIONS[name](finished)
    new, outcomes = content(finished), set()
    for number in itertools.count(1):
        folder = prepared(number)
        was_killed = killed(OPERATIONS[name], folder, number)
        found = seen(folder)
        assert found in (OLD, seen(finished)), number
        outcomes.add(found == OLD)
        if was_killed:
            OPERATIONS[name](folder)
        assert content(folder) == new, number
        if not was_killed:
            break
    assert number > 4 and outcomes == {True, False}
