"""Local copies of files in stores. Training, conversion and all else read and write only these.

    with copies.used("/data/copies", limit=50 << 30):
        copies.local("s3://ads/logs/*.tfrecord")          # /data/copies/s3/ads/logs/*.tfrecord
        copies.matches("/data/copies/s3/ads/logs/*.tfrecord")      # fetched, as local paths
        with copies.folders(["/data/copies/s3/ads/runs/a"]):
            ...                                           # what is written there is put, too

The path of a copy has the scheme, the bucket and the key, so each object has one place, and `url`
goes back. `_known/` says of which state of the object it is a copy. So an object is fetched once,
until another one is put, also by several starts; and a copy that was changed is put.

A folder that is written belongs to one start at a time (`leases`). A start that has lost its lock
puts nothing more. Files are put in the order in which they were written, and removed last. So the
store shows states that the local folder has gone through, and a start on any machine goes on from
the last one. `checkpoint` is only put if what it names was put. Temporary names are never put.

The store is the truth: at the start of `folders`, what differs from it locally is replaced. A
folder that is only read is not touched: `snapshot` gives a start its own view of it, of links to
copies and of what is missing, and puts the files that the start adds. Copies in a folder that no
start holds, and that no start has asked for within a day, are removed when others need their space.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import logging
import os
import re
import shutil
import signal
import threading
import time
import urllib.parse
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, NamedTuple, Optional

from feature_specs.errors import ConfigError, Locked
from feature_specs.files import documents, leases, locks, owners, staged, stores, urls

_log = logging.getLogger("estimator_kit")

_KNOWN, _CHECKPOINT, _MODEL = "_known", "checkpoint", "saved_model.pb"
_HELD, _PRIVATE, _ALIVE = "_held", "_private", "_LOCK"
_AT_ONCE = 8  # Requests.
_UNUSED_SECS = 24 * 3600
_LINKED = 1 << 20  # Files of this size are linked. Smaller ones might be written in place.
_WILDCARD = re.compile(r"[*?[]")
# Names that are never put: temporary names of the kit and of TensorFlow, and local locks.
_NOT_PUT = re.compile(
    r"\.tmp-|_LOCK$|_private$|_held$|lock\.json|.*_temp$|.*\.tempstate|.*\.tmp[0-9a-f]{6,}$|__pycache__$"
)
_UNFINISHED, _DONE = "_unfinished", ".done"  # Of a conversion: only its notes are put.
_OF_CHECKPOINT = re.compile(r"model\.ckpt-\d+\.(data-.*|index|meta)$")
_EVENTS = re.compile(r"events\.out\.tfevents\.")

PUT_SECS = 10.0


class _Use(NamedTuple):
    """The folder of this start.

    Attributes:
      root: where all copies are.
      limit: the most bytes of all copies.
      given: whether the caller chose the limit.
      own: a folder for what only this start sees; it is made when it is needed.
    """

    root: str
    limit: int
    given: bool
    own: str


_use: Optional[_Use] = None

# The own folders of this process, with the files whose locks show that it is alive.
_alive: dict[str, int] = {}


class _Known(documents.Document):
    """The state of an object of which a file is a copy, and the file as it was then."""

    sort_keys: ClassVar[bool] = False

    token: str
    size: int
    mtime_ns: int


@contextlib.contextmanager
def used(root: str, *, limit: Optional[int] = None) -> Iterator[None]:
    """Keeps copies in a folder until the end of the block.

    Args:
      root: the folder, a local path.
      limit: the most bytes of all copies; by default what is there and half of the free disk.
    """
    global _use
    before, root = _use, os.path.realpath(root)
    if not re.fullmatch(r"[ !#-\[\]-~]+", root):  # Texts in documents would have another form.
        raise ConfigError(
            f"--copies_dir: got {root!r}, expected a path of ASCII characters without quotation "
            "marks and backslashes. Choose another folder"
        )
    try:
        os.makedirs(root, exist_ok=True)
        free = shutil.disk_usage(root).free
    except OSError as error:
        raise ConfigError(
            f"--copies_dir: {root} cannot be made: {error.strerror}. Choose another folder for the "
            "copies of files in stores"
        ) from error
    given = limit is not None
    if limit is None:
        limit = _size_of(root) + free // 2
    _remove_left(root)
    _use = _Use(root, limit, given, os.path.join(root, _PRIVATE, uuid.uuid4().hex))
    urls.use(root)
    try:
        yield
    finally:
        if _use.own in _alive:
            shutil.rmtree(_use.own, ignore_errors=True)
            os.close(_alive.pop(_use.own))
        urls.use(root, is_used=False)
        _use = before


def _remove_left(root: str) -> None:
    """Removes the own folders of starts that were killed."""
    place = os.path.join(root, _PRIVATE)
    for name in os.listdir(place) if os.path.isdir(place) else ():
        alive = os.path.join(place, name, _ALIVE)
        with contextlib.suppress(locks.Taken, OSError), locks.held(alive, make=False):
            shutil.rmtree(os.path.join(place, name), ignore_errors=True)


def _own_place() -> str:
    """The folder that only this start sees. Others see that it is alive."""
    assert _use is not None
    if not os.path.isdir(_use.own):
        os.makedirs(_use.own)
        handle = os.open(os.path.join(_use.own, _ALIVE), os.O_CREAT | os.O_RDWR, 0o666)
        with contextlib.suppress(locks.LocksMissing):
            locks.lock(handle)
        _alive[_use.own] = handle
    return _use.own


def local(url: str) -> str:
    """The path of the copy of an object, a folder or a pattern."""
    store, key = stores.find(url)
    if any(part in ("", ".", "..") for part in key.split("/")[:-1]) or key.endswith(("/.", "/..")):
        raise ConfigError(f"got {url!r}, expected a path without `..`, `.` and empty parts")
    return _path(store, key)


def url(path: str) -> str:
    """The URL of a copy; another path as it is."""
    return urls.shown(path) if _is_copy(path) else path


def matches(pattern: str, *, with_folders: bool = False) -> Optional[list[str]]:
    """The copies of the objects that match a pattern, fetched; None for a path of no store.

    Args:
      pattern: a path with wildcards, below the folder of the copies.
      with_folders: only the names of files and folders; nothing is fetched.
    """
    if not _is_copy(pattern):
        return None
    store, pattern = stores.find(url(pattern))
    found, folders = _matching(store, pattern)
    if with_folders:
        return [_path(store, key) for key in (*(each.key for each in found), *folders)]
    # What describes a folder, such as its manifest, comes with its files.
    asked = _accepted(pattern.rpartition("/")[2])
    objects = [each for each in found if asked(os.path.basename(each.key))]
    # Nobody changes the copy of a folder that another start holds.
    first = _path(store, _WILDCARD.split(pattern)[0].rpartition("/")[0])
    root = _own_place() if _is_held_elsewhere(first) else None
    _fetch(store, found, root)
    return [_path(store, each.key, root) for each in objects]


def exists(path: str) -> bool:
    """Whether a local file exists; a copy, whether its object does."""
    if not _is_copy(path):
        return os.path.exists(path)
    store, key = stores.find(url(path))
    return store.read(key) is not None


def fetched(path: str) -> bool:
    """Fetches the object of a copy's path, if it exists; else removes the copy.

    Returns:
      Whether it exists.
    """
    store, key = stores.find(url(path))
    objects = [each for each in store.level(key.rpartition("/")[0])[1] if each.key == key]
    if objects:
        _fetch(store, objects)
    else:
        _forget(path)
    return bool(objects)


@contextlib.contextmanager
def snapshot(path: str) -> Iterator[str]:
    """A file or a folder of a store as it is now, of which only this start sees the copy.

    What the block changes or adds there is put at its end, except checkpoints. Nothing is removed,
    and no lock is taken, because another start may work in the folder.

    Args:
      path: a path of a copy. Or of a checkpoint without the ends of its files.

    Yields:
      A path in the place of it.

    Raises:
      ConfigError: nothing in the store has this name.
    """
    store, key = stores.find(url(path))
    objects = store.objects(key) or _of_prefix(store, key)
    objects = [each for each in objects if not leases.is_lock(each.key)]
    if not objects:
        raise ConfigError(f"{url(path)} does not exist. Check its name")
    root = _own_place()
    for each in objects:
        shared, own = _path(store, each.key), _path(store, each.key, root)
        os.makedirs(os.path.dirname(own), exist_ok=True)
        if each.size >= _LINKED and _has_copy(store, each):
            with contextlib.suppress(OSError):  # It was replaced meanwhile, or is linked already.
                os.link(shared, own)
    _fetch(store, [o for o in objects if not os.path.exists(_path(store, o.key, root))], root)
    own = _path(store, key, root)
    before = _states_of(own)
    yield own
    for name, state in _states_of(own).items():
        if before.get(name) != state and not _OF_CHECKPOINT.match(os.path.basename(name)):
            if os.path.basename(name) != _CHECKPOINT:
                store.put(stores.find(url(name))[1], name)


def _of_prefix(store: stores.Store, key: str) -> list[stores.Object]:
    """The files of a checkpoint, and what the folder says about its model."""
    folder, _, _ = key.rpartition("/")
    found = [each for each in store.level(folder)[1] if each.key.startswith(f"{key}.")]
    return [*found, *store.objects(f"{folder}/feature_spec")] if found else []


@contextlib.contextmanager
def folders(paths: Sequence[str], *, stale_secs: float = owners.STALE_SECS) -> Iterator[None]:
    """Holds folders of stores for one start, and puts there what the block writes to their copies.

    Paths of no copy are left out. At the end, also after an error, it waits until everything has
    been put.

    Raises:
      Locked: another start works in a folder; nothing was changed.
      StoreError: a store cannot be reached.
    """
    of_stores = sorted({path for path in paths if _is_copy(path)})
    outer = [p for p in of_stores if not any(p.startswith(f"{other}/") for other in of_stores)]
    places = [(path, *stores.find(url(path))) for path in outer]
    with contextlib.ExitStack() as stack:
        if places:
            stack.enter_context(_ended_by_sigterm())
        held = []
        for path, store, key in places:
            lock = leases.Lock(store, key, stale_secs)
            lock.take()
            stack.callback(lock.release)
            lock.check_others()
            stack.enter_context(_marked(path))
            held.append(_Folder(path, store, key, lock))
        for each in held:
            each.replace()
        if held:
            stack.enter_context(_kept_put(Mirror(held)))
        yield


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """SIGTERM ends the block as an error does, unless the block has its own handler."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextlib.contextmanager
def _marked(path: str) -> Iterator[None]:
    """Shows other starts of this machine that this one holds the copy of a folder."""
    assert _use is not None
    name = urllib.parse.quote(os.path.relpath(path, _use.root), safe="")
    place = os.path.join(_use.root, _HELD, name)
    os.makedirs(os.path.dirname(place), exist_ok=True)
    try:
        with locks.held(place):
            yield
    except locks.Taken:
        raise Locked(
            f"another start of this machine works in {path}, the copy of {url(path)}. Try again "
            "when it has ended"
        ) from None


def _held_elsewhere() -> list[str]:
    """The copies of folders that other starts of this machine hold."""
    assert _use is not None
    place, found = os.path.join(_use.root, _HELD), []
    for name in os.listdir(place) if os.path.isdir(place) else ():
        try:
            with locks.held(os.path.join(place, name), make=False):
                pass
        except locks.Taken:
            found.append(os.path.join(_use.root, urllib.parse.unquote(name)))
        except FileNotFoundError:
            pass
    return found


def _is_held_elsewhere(path: str) -> bool:
    return any(f"{path}/".startswith(f"{folder}/") for folder in _held_elsewhere())


@contextlib.contextmanager
def _kept_put(mirror: Mirror) -> Iterator[None]:
    """Puts what changes until the end of the block, and then the rest."""
    stop = threading.Event()

    def keep_putting() -> None:
        while not stop.wait(PUT_SECS):
            try:
                mirror.renew()
                mirror.put(events=False)
            except Locked as error:
                _log.error("%s", error)
                stop.set()
                signal.raise_signal(signal.SIGTERM)  # Training ends at its next step.
            except OSError as error:  # The next round, or the end, may succeed.
                _log.warning("what was written is not in the store yet: %s", error)

    thread = threading.Thread(target=keep_putting, name="copies", daemon=True)
    thread.start()
    try:
        yield
    except BaseException as first:
        stop.set()
        thread.join()
        try:
            mirror.put()
        except OSError as error:  # It must not hide the first error.
            _log.error("what was written last is not in the store: %s", error)
        except Locked as error:
            raise error from first
        raise
    stop.set()
    thread.join()
    mirror.put()


class _Folder:
    """A folder that this start holds."""

    def __init__(self, path: str, store: stores.Store, key: str, lock: leases.Lock):
        self.path, self._store, self._key, self.lock = path, store, key, lock
        self._of_checkpoint: Optional[stores.Stamp] = None

    def replace(self) -> None:
        """Makes the copy equal to the store."""
        objects = [each for each in self._store.objects(self._key) if not leases.is_lock(each.key)]
        _replace(self._store, self._key, objects)
        os.makedirs(self.path, exist_ok=True)
        if self.lock.is_taken_over:
            for path in _without_checkpoint(self.path):
                _log.warning("%s: its training was killed before it was whole here", url(path))
                os.remove(path)
        found = self._store.read(self.key_of(os.path.join(self.path, _CHECKPOINT)))
        self._of_checkpoint = found[1] if found is not None else stores.ABSENT

    def put(self, path: str) -> stores.Stamp:
        """Puts a file. Of `checkpoint`, only if nobody else has put another one."""
        self.lock.check()
        key = self.key_of(path)
        if path != os.path.join(self.path, _CHECKPOINT):
            return self._store.put(key, path)
        try:
            stamp = self._store.put(key, path, only_if=self._of_checkpoint)
        except stores.NoConditions:
            stamp = self._store.put(key, path)
        except stores.Changed:
            found = self._store.read(key)
            with open(path, "rb") as file:
                if found is None or found[0] != file.read():
                    raise Locked(self.lock.refusal(None)) from None
            stamp = found[1]  # It is ours: the answer to the request was lost.
        self._of_checkpoint = stamp
        return stamp

    def remove(self, path: str) -> None:
        self.lock.check()
        self._store.remove(self.key_of(path))

    def key_of(self, path: str) -> str:
        inner = os.path.relpath(path, self.path)
        return "/".join(filter(None, [self._key, "" if inner == os.curdir else inner]))


class Mirror:
    """Puts what changes in the copies of folders; see the module."""

    def __init__(self, held: Sequence[_Folder]):
        self._held = held

    def renew(self) -> None:
        for each in self._held:
            each.lock.renew()

    def put(self, *, events: bool = True) -> None:
        """Puts the files that were changed, in the order of their changes; removes what is gone.

        Args:
          events: whether to put files of TensorBoard, too, which grow all the time.

        Raises:
          Locked: another start has taken over a folder. Nothing more is put.
          StoreError: a store cannot be reached.
        """
        while not self._put_all(events):  # A file was changed meanwhile: its turn comes later.
            pass

    def _put_all(self, events: bool) -> bool:
        states = {
            path: (state, folder)
            for folder in self._held
            for path, state in _states_of(folder.path).items()
            if events or not _EVENTS.match(os.path.basename(path))
        }
        for path in sorted(states, key=lambda path: _turn(path, states[path][0])):
            state, folder = states[path]
            if _is_known(path, state):
                continue
            if not os.path.exists(_note(path)):
                # If the file is gone before we know that it was put, it is removed there, too.
                _know(path, "", _NO_STATE)
            try:
                stamp = folder.put(path)
            except FileNotFoundError:
                return False
            _know(path, stamp.token or "", state)
            if _state(path) != state:
                return False
        for folder in self._held:
            gone = [path for path in _known_in(folder.path) if not os.path.exists(path)]
            if not os.path.isdir(folder.path) or any(map(_is_state, gone)):
                raise Locked(
                    f"copies of {url(folder.path)} in {folder.path} were removed during the run. "
                    "The store keeps what it has. Remove no copies while they are used, and start "
                    "again"
                )
            for path in gone:
                folder.remove(path)
                os.remove(_note(path))
        return True


def _is_state(path: str) -> bool:
    """Whether a training never removes a file alone: `checkpoint`, and the files that it names."""
    folder, name = os.path.split(path)
    if name == _CHECKPOINT:
        return os.path.isdir(folder)
    try:
        with open(os.path.join(folder, _CHECKPOINT), encoding="utf-8") as file:
            named = re.search(r'^model_checkpoint_path: "(?:.*/)?(.*)"', file.read(), re.MULTILINE)
    except OSError:
        return False
    return named is not None and name.startswith(f"{named[1]}.")


def _turn(path: str, state: _State) -> tuple[int, bool, str]:
    """When it is the turn of a file: in the order in which files got their names.

    The files of a SavedModel got theirs when its folder did, and `saved_model.pb` is the last one,
    because servers look for it.
    """
    name = os.path.basename(path)
    folder = path
    for _ in range(3):
        folder = os.path.dirname(folder)
        if os.path.exists(os.path.join(folder, _MODEL)):
            return os.stat(folder).st_ctime_ns, name == _MODEL, path
    return state.named_ns, name == _CHECKPOINT, path


def _matching(store: stores.Store, pattern: str) -> tuple[list[stores.Object], list[str]]:
    """The objects, and the keys of folders, that match a pattern, part by part."""
    parts, places = pattern.split("/"), [""]
    for number, part in enumerate(parts):
        is_last = number == len(parts) - 1
        if not _WILDCARD.search(part) and not is_last:
            places = ["/".join(filter(None, [place, part])) for place in places]
            continue
        accepts = _accepted(part)
        found: list[stores.Object] = []
        inner: list[str] = []
        for place in places:
            folders, objects = store.level(place)
            inner += [key for key in folders if accepts(os.path.basename(key))]
            found += [
                each
                for each in objects
                if accepts(os.path.basename(each.key))
                or (is_last and os.path.basename(each.key) in _NOTES)
            ]
        if is_last:
            return found, inner
        places = inner
    return [], []


def _accepted(part: str) -> Callable[[str], bool]:
    """Whether a name fits a part of a pattern, or is the part itself."""
    fits = re.compile(fnmatch.translate(part.replace("[^", "[!"))).match
    return lambda name: name == part or fits(name) is not None


# Files that describe the folder of other files.
_NOTES = ("_SUCCESS", "_MANIFEST.json", "_PLAN.json")


def _replace(store: stores.Store, key: str, objects: Sequence[stores.Object]) -> None:
    """Makes the copy of a folder equal to its objects."""
    wanted = {_path(store, each.key) for each in objects}
    place = _path(store, key)
    for path in [*_states_of(place), *_known_in(place)]:
        if path not in wanted:
            _forget(path)
    _fetch(store, objects)


def _forget(path: str) -> None:
    """Removes a copy. Without its note, a file is never missed in a store."""
    for each in (_note(path), path):
        with contextlib.suppress(FileNotFoundError):
            os.remove(each)


def _fetch(
    store: stores.Store, objects: Sequence[stores.Object], root: Optional[str] = None
) -> None:
    """Fetches the objects that have no copy, several at once, within the limit.

    Args:
      root: where to, if not to the copies that all starts share.
    """
    assert _use is not None
    missing = [each for each in objects if root is not None or not _has_copy(store, each)]
    size = sum(each.size for each in missing)
    if not missing:
        return
    _make_room(size, {_path(store, each.key) for each in objects})
    if size > 1 << 26:
        _log.info("fetching %d files (%.1f GiB) from %s", len(missing), size / 2**30, store.root)
    try:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for _ in pool.map(lambda each: _fetch_one(store, each, root), missing):
                pass
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EROFS, errno.EACCES) or (
            isinstance(error, stores.StoreError)
        ):
            raise
        raise ConfigError(
            f"--copies_dir: {_use.root} cannot take the copies of files in {store.root}: "
            f"{error.strerror}. Make room, or choose another folder"
        ) from error


def _fetch_one(store: stores.Store, found: stores.Object, root: Optional[str]) -> None:
    path = _path(store, found.key, root)
    with staged.file(path) as temporary:
        try:
            try:
                store.fetch(found, temporary)
            except stores.Changed:  # Since it was listed.
                (found,) = store.objects(found.key)
                store.fetch(found, temporary)
        except (FileNotFoundError, stores.Changed, ValueError):
            raise stores.StoreError(
                errno.EIO,
                f"{store.root}/{found.key} was removed or replaced while it was read. Try again",
            ) from None
        # The same time on all machines: what was trained on is known by it.
        os.utime(temporary, ns=(found.changed, found.changed))
        state = _state(temporary)
    assert state is not None
    if root is None:
        _know(path, found.token, state)


def _has_copy(store: stores.Store, found: stores.Object) -> bool:
    path = _path(store, found.key)
    state = _state(path)
    if state is None or not _is_known(path, state, found.token):
        return False
    os.utime(_note(path))  # It is used.
    return True


def _make_room(size: int, used_now: set[str]) -> None:
    """Removes copies that nobody has used for a day, the oldest first, until `size` bytes fit."""
    assert _use is not None
    left = _use.limit - _size_of(_use.root) - size
    unused, held = [], [f"{folder}/" for folder in _held_elsewhere()] if left < 0 else []
    for path in _known_in(_use.root) if left < 0 else ():
        last = os.stat(_note(path)).st_mtime
        is_held = path.startswith(tuple(held))
        if path not in used_now and not is_held and time.time() - last > _UNUSED_SECS:
            unused.append((last, path))
    for _, path in sorted(unused):
        if left >= 0:
            break
        left += os.path.getsize(path) if os.path.exists(path) else 0
        _forget(path)
    if left < 0:
        bound = "--copies_gib" if _use.given else "half of the free disk"
        raise ConfigError(
            f"{size / 2**20:,.1f} MiB of files in stores are read, and {bound} leaves "
            f"{max(0, size + left) / 2**20:,.1f} MiB for copies in {_use.root}. Set --copies_gib, "
            "choose a larger disk with --copies_dir, or read fewer files"
        )


def _is_copy(path: str) -> bool:
    return _use is not None and path.startswith(_use.root + os.sep)


def _path(store: stores.Store, key: str, root: Optional[str] = None) -> str:
    assert _use is not None
    scheme, _, place = store.root.partition("://")
    return os.path.join(root or _use.root, scheme, place, *filter(None, [key]))


def _note(path: str) -> str:
    """Where it is kept which state of its object a copy is."""
    assert _use is not None
    return os.path.join(_use.root, _KNOWN, os.path.relpath(path, _use.root))


class _State(NamedTuple):
    """A file: its size, and when its content and its name were written."""

    size: int
    mtime_ns: int
    named_ns: int


_NO_STATE = _State(-1, 0, 0)  # Of no file.


def _state(path: str) -> Optional[_State]:
    """The state of a file; None if it does not exist."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return _State(status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _is_known(path: str, state: _State, token: Optional[str] = None) -> bool:
    """Whether a file is the copy of an object, and of this state of it."""
    try:
        known = _Known.load(_note(path))
    except ConfigError:  # Half of it was written when the machine went down.
        return False
    if known is None or (known.size, known.mtime_ns) != (state.size, state.mtime_ns):
        return False
    return token is None or known.token == token


def _know(path: str, token: str, state: _State) -> None:
    _Known(token=token, size=state.size, mtime_ns=state.mtime_ns).save(_note(path))


def _states_of(folder: str) -> dict[str, _State]:
    """The files in a folder that have their names, or the file itself."""
    found: dict[str, Optional[_State]] = {}
    if os.path.isfile(folder):
        found[folder] = _state(folder)
    for place, inner, names in os.walk(folder):
        inner[:] = sorted(name for name in inner if not _NOT_PUT.match(name))
        only_notes = _UNFINISHED in place[len(folder) :].split(os.sep)
        for name in names:
            if not _NOT_PUT.match(name) and (not only_notes or name.endswith(_DONE)):
                path = os.path.join(place, name)
                found[path] = _state(path)
    return {path: state for path, state in found.items() if state is not None}


def _without_checkpoint(folder: str) -> list[str]:
    """Files of checkpoints in folders without a file `checkpoint`, which is put after them.

    Without it, TensorFlow does not know them, and what else was written with them may be missing.
    """
    paths = _states_of(folder)
    whole = {os.path.dirname(p) for p in paths if os.path.basename(p) == _CHECKPOINT}
    return [
        path for path in paths
        if _OF_CHECKPOINT.match(os.path.basename(path)) and os.path.dirname(path) not in whole
    ]  # fmt: skip


def _known_in(folder: str) -> list[str]:
    """The copies in a folder that were made or put, whether or not the files still exist."""
    assert _use is not None
    notes = os.path.join(_use.root, _KNOWN)
    below = os.path.normpath(os.path.join(notes, os.path.relpath(folder, _use.root)))
    return [os.path.join(_use.root, os.path.relpath(path, notes)) for path in _states_of(below)]


def _size_of(folder: str) -> int:
    return sum(state.size for state in _states_of(folder).values())
