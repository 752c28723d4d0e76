"""Objects in stores (S3, GCS, Azure, HDFS): listed, fetched, and put whole, without TensorFlow.

    store, key = stores.find("s3://ads/logs/a.tfrecord")
    for each in store.objects("logs/"):
        store.fetch(each, f"/data/{each.key}")
    store.put("logs/b.json", b"{}", only_if=stores.ABSENT)

`obstore` reaches S3, GCS and Azure, `pyarrow` HDFS. Credentials and endpoints come from the
environment variables of the store, and from nowhere else. An object appears whole. With `only_if`,
it is put only if nobody else has put another one since: locks are made of this (`copies`).

A request is tried again for about a minute. What cannot be reached after that is an `OSError` with
a number that says whether another start may succeed. The message names the bucket, what the store
said, and the variables to look at, and never a credential. This module keeps no files, and must not
be used in a process that was forked after its first request.
"""

from __future__ import annotations

import datetime
import errno
import functools
import importlib
import io
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Optional, TypeVar, Union, cast

from feature_specs.errors import ConfigError, MissingPackageError

# For each scheme, the store and the variables with which it is reached.
_AMAZON = (
    "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL"
)
_GOOGLE = "GOOGLE_APPLICATION_CREDENTIALS, GOOGLE_SERVICE_ACCOUNT"
_AZURE = "AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN"
_HADOOP = "HADOOP_HOME, JAVA_HOME, ARROW_LIBHDFS_DIR, CLASSPATH"
VARIABLES = {
    "s3": _AMAZON,
    "s3a": _AMAZON,
    "gs": _GOOGLE,
    "az": _AZURE,
    "abfs": _AZURE,
    "abfss": _AZURE,
    "hdfs": _HADOOP,
}

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*)://([^/]*)/*(.*)", re.DOTALL)

# A request that is silent for this long is sent again, and a store that is silent or busy for
# `_RETRY_SECS` counts as away. A body may take longer: each part that arrives is kept.
TIMEOUT_SECS = 20
RETRY_SECS = 45
_CONNECT_SECS = 10
_PART = 16 << 20  # A larger object is put in parts of this size.
_ATTEMPTS = 5
_PAUSE_SECS = 1.0

_ABSENCE = re.compile(r"NoSuchBucket|ContainerNotFound|The specified bucket does not exist")
_REFUSED = re.compile(
    r"status code: 4(?!04|08|09|12|29)\d\d|incorrectly configured region|ExpiredToken|InvalidToken"
    r"|TokenRefreshRequired|InvalidAccessKeyId|SignatureDoesNotMatch|AuthenticationFailed|invalid_grant"
)
_NO_CONDITIONS = re.compile(r"status code: 501|NotImplemented")


class StoreError(OSError):
    """A store refused a request or did not answer; `errno` says which. The message is whole."""

    def __str__(self) -> str:
        return str(self.strerror)


class Changed(Exception):
    """`only_if` did not hold: somebody else has put or removed the object."""


class NoConditions(Exception):
    """The store cannot put an object on a condition."""


class Object(NamedTuple):
    """An object as a listing shows it.

    Attributes:
      key: its path in the store, without a slash at the start.
      size: bytes.
      changed: when it was put, by the store's clock, in nanoseconds since 1970.
      token: identifies its content: another one after each put.
    """

    key: str
    size: int
    changed: int
    token: str


class Stamp(NamedTuple):
    """The state of an object, for `only_if`. `ABSENT` is the state of none."""

    token: Optional[str] = None
    version: Optional[str] = None


ABSENT = Stamp()


def is_url(text: str) -> bool:
    """Whether a text is the URL of an object or a folder in a store that this module reaches."""
    match = _URL.match(text)
    return match is not None and match[1].lower() in VARIABLES


def find(url: str) -> tuple[Store, str]:
    """The store of a URL, and the key in it.

    Raises:
      ConfigError: the URL has no bucket.
      MissingPackageError: the package for this store is not installed.
    """
    match = _URL.match(url)
    assert match is not None and is_url(url), url
    scheme, place = match[1].lower(), match[2]
    if not place:
        raise ConfigError(
            f"got {url!r}, expected a bucket after the slashes: {scheme}://bucket/..."
        )
    if "@" in place and not scheme.startswith("abfs"):
        raise ConfigError(
            f"got {scheme}://...@{place.rpartition('@')[2]}, expected a bucket without a name and "
            f"a secret. Set {VARIABLES[scheme]}"
        )
    return _store(f"{scheme}://{place}"), match[3].rstrip("/")


@functools.cache
def _store(root: str) -> Store:
    return Hadoop(root) if root.startswith("hdfs:") else Objects(root)


_Request = TypeVar("_Request", bound=Callable[..., Any])


def _sent_again(request: _Request) -> _Request:
    """Sends a request again where the package does not: a put on a condition, a cut listing.

    After a silence, the package sends only requests again that change nothing if they come twice. A
    put on a condition may so find the object of its first try: its callers look at it.
    """

    @functools.wraps(request)
    def sent(*args: Any, **options: Any) -> Any:
        end = time.monotonic() + RETRY_SECS
        while True:
            try:
                return request(*args, **options)
            except StoreError as error:
                if error.errno != errno.ETIMEDOUT or time.monotonic() > end:
                    raise
                time.sleep(_PAUSE_SECS)

    return cast(_Request, sent)


class Objects:
    """A bucket of S3 or GCS, or a container of Azure."""

    def __init__(self, root: str):
        self.root = root
        obstore_store = _package("obstore.store", "pip install 'estimator-kit[stores]'")
        config: dict[str, Any] = {}
        if os.environ.get("AWS_PROFILE") and not os.environ.get("AWS_ACCESS_KEY_ID"):
            auth = _package("obstore.auth.boto3", "pip install boto3")
            config["credential_provider"] = auth.Boto3CredentialProvider()
        with self._explained(""):
            self._store = obstore_store.from_url(
                root.replace("s3a:", "s3:"),
                # An endpoint that is given as http:// is meant so.
                client_options={
                    "timeout": f"{TIMEOUT_SECS}s",
                    "connect_timeout": f"{_CONNECT_SECS}s",
                    "allow_http": True,
                },
                retry_config={
                    "max_retries": 8,
                    "retry_timeout": datetime.timedelta(seconds=RETRY_SECS),
                    "backoff": {
                        "init_backoff": datetime.timedelta(milliseconds=100),
                        "max_backoff": datetime.timedelta(seconds=5),
                        "base": 2,
                    },
                },
                **(config if root.startswith("s3") else {}),
            )

    @_sent_again
    def objects(self, prefix: str) -> list[Object]:
        """All objects below a folder, or the object of this name. Empty if it has none."""
        with self._explained(prefix):
            listed = [_object(meta) for page in self._store.list(prefix or None) for meta in page]
            if not listed and prefix:  # A listing is of folders.
                with _missing_is_none():
                    listed = [_object(self._store.head(prefix))]
        return [each for each in listed if not each.key.endswith("/")]

    @_sent_again
    def level(self, folder: str) -> tuple[list[str], list[Object]]:
        """The keys of the folders, and the objects, that are directly in a folder."""
        with self._explained(folder):
            found = self._store.list_with_delimiter(folder or None)
            return list(found["common_prefixes"]), [_object(meta) for meta in found["objects"]]

    def fetch(self, found: Object, path: str) -> None:
        """Writes an object to a file. A body that is cut is continued from where it was cut.

        Raises:
          Changed: the object is another one by now.
          StoreError: see the module.
        """
        with open(path, "wb") as file:
            left = _ATTEMPTS
            while file.tell() < found.size or left == _ATTEMPTS:
                start = file.tell()
                options: dict[str, Any] = {"range": (start, found.size)} if start else {}
                try:
                    with self._explained(found.key):
                        result = self._store.get(found.key, options=options)
                        if _token(result.meta) != found.token:
                            raise Changed(found.key)
                        for part in result:
                            file.write(part)
                except StoreError as error:
                    left = _ATTEMPTS if file.tell() > start else left - 1
                    if error.errno != errno.ETIMEDOUT or not left:
                        raise
                    continue
                left -= 1
                if file.tell() == found.size:
                    return
                if not left or file.tell() > found.size:
                    raise self._error(
                        errno.EIO, found.key, f"{file.tell()} bytes came, expected {found.size}"
                    )

    @_sent_again
    def read(self, key: str) -> Optional[tuple[bytes, Stamp, int]]:
        """A small object, its state, and when it was put; None if it does not exist."""
        with self._explained(key), _missing_is_none():
            result = self._store.get(key)
            meta = result.meta
            return bytes(result.bytes()), _stamp(meta), _object(meta).changed
        return None

    @_sent_again
    def put(
        self, key: str, content: Union[bytes, str], *, only_if: Optional[Stamp] = None
    ) -> Stamp:
        """Puts an object: bytes, or the file of a path.

        Args:
          key: its key.
          content: what it holds.
          only_if: the state that it must have now; `ABSENT` if it must not exist.

        Raises:
          Changed, NoConditions: see `only_if`. Also after a put of ours whose answer was lost.
          StoreError: see the module. Nothing, or all of it, was put.
        """
        if only_if is None:
            options: dict[str, Any] = {}
        elif only_if == ABSENT:
            options = {"mode": "create"}
        else:
            state = {"e_tag": f'"{only_if.token}"', "version": only_if.version}
            options = {"mode": {name: value for name, value in state.items() if value}}
        with self._explained(key), contextmanager(_opened)(content) as body:
            return _stamp(self._store.put(key, body, chunk_size=_PART, **options))

    @_sent_again
    def remove(self, key: str) -> None:
        """Removes an object; one that does not exist is removed already."""
        with self._explained(key), _missing_is_none():
            self._store.delete(key)

    @contextmanager
    def _explained(self, key: str) -> Iterator[None]:
        """Turns an error of the package into one that says what to do."""
        try:
            yield
        except (StoreError, Changed, NoConditions):
            raise
        except FileNotFoundError as error:
            if _ABSENCE.search(str(error)):
                raise self._no_bucket() from error
            raise
        except Exception as error:
            errors = importlib.import_module("obstore.exceptions")
            if not isinstance(error, errors.BaseError):
                raise
            text = str(error).split("\nDebug source")[0]
            if isinstance(error, (errors.PreconditionError, errors.AlreadyExistsError)):
                raise Changed(key) from error
            if isinstance(error, errors.NotModifiedError):
                raise Changed(key) from error
            if _NO_CONDITIONS.search(text) or isinstance(error, errors.NotSupportedError):
                raise NoConditions(key) from error
            if _ABSENCE.search(text):
                raise self._no_bucket() from error
            refused = (errors.PermissionDeniedError, errors.UnauthenticatedError)
            if isinstance(error, refused) or _REFUSED.search(text):
                raise self._error(errno.EACCES, key, text) from error
            raise self._error(errno.ETIMEDOUT, key, text) from error

    def _no_bucket(self) -> StoreError:
        return StoreError(
            errno.ENOENT,
            f"{self.root} does not exist. Check its name, its region and the endpoint, or make it",
        )

    def _error(self, number: int, key: str, text: str) -> StoreError:
        place = f"{self.root}/{key}".rstrip("/")
        variables = VARIABLES[self.root.partition(":")[0]]
        if number == errno.EACCES:
            hint = f"Check the rights in this bucket, and {variables}; a token may have expired"
        else:
            hint = f"Try again later, or check the endpoint, the network and {variables}"
        return StoreError(number, f"{place}: the store says: {_short(text)}. {hint}")


class Hadoop:
    """The file system of HDFS. It has no conditions, and its rename never replaces a file."""

    def __init__(self, root: str, files: Any = None):
        self.root = root
        arrow = _package("pyarrow.fs", "pip install 'estimator-kit[tables]'")
        self._kind = arrow.FileType
        self._selector = arrow.FileSelector
        if files is None:
            try:
                files = arrow.HadoopFileSystem.from_uri(root)
            except OSError as error:
                raise self._error(error) from error
        self._files = files

    def objects(self, prefix: str) -> list[Object]:
        with self._explained():
            info = self._files.get_file_info(f"/{prefix}")
            if info.type == self._kind.File:
                return [self._object(info)]
            selector = self._selector(f"/{prefix}", recursive=True, allow_not_found=True)
            found = self._files.get_file_info(selector)
        return [self._object(info) for info in found if info.type == self._kind.File]

    def level(self, folder: str) -> tuple[list[str], list[Object]]:
        with self._explained():
            found = self._files.get_file_info(self._selector(f"/{folder}", allow_not_found=True))
        folders = [info.path.strip("/") for info in found if info.type == self._kind.Directory]
        return folders, [self._object(info) for info in found if info.type == self._kind.File]

    def fetch(self, found: Object, path: str) -> None:
        with self._explained(), self._files.open_input_stream(f"/{found.key}") as source:
            with open(path, "wb") as file:
                while part := source.read(1 << 22):
                    file.write(part)
            if file.closed and os.path.getsize(path) != found.size:
                raise Changed(found.key)

    def read(self, key: str) -> Optional[tuple[bytes, Stamp, int]]:
        with self._explained():
            info = self._files.get_file_info(f"/{key}")
            if info.type != self._kind.File:
                return None
            found = self._object(info)
            with self._files.open_input_stream(f"/{key}") as source:
                return source.read(), Stamp(found.token), found.changed

    def put(
        self, key: str, content: Union[bytes, str], *, only_if: Optional[Stamp] = None
    ) -> Stamp:
        if only_if is not None:
            raise NoConditions(key)
        temporary = f"/{key}.tmp-{os.getpid()}"
        with self._explained(), contextmanager(_opened)(content) as body:
            self._files.create_dir(os.path.dirname(temporary), recursive=True)
            with self._files.open_output_stream(temporary) as sink:
                while part := body.read(1 << 22):
                    sink.write(part)
            if self._files.get_file_info(f"/{key}").type == self._kind.File:
                self._files.delete_file(f"/{key}")
            self._files.move(temporary, f"/{key}")
            return Stamp(self._object(self._files.get_file_info(f"/{key}")).token)

    def remove(self, key: str) -> None:
        with self._explained():
            if self._files.get_file_info(f"/{key}").type == self._kind.File:
                self._files.delete_file(f"/{key}")

    def _object(self, info: Any) -> Object:
        changed = info.mtime_ns or 0
        return Object(info.path.strip("/"), info.size, changed, f"{info.size}-{changed}")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (StoreError, FileNotFoundError):
            raise
        except OSError as error:
            raise self._error(error) from error

    def _error(self, error: OSError) -> StoreError:
        refused = isinstance(error, PermissionError) or "AccessControlException" in str(error)
        return StoreError(
            errno.EACCES if refused else errno.ETIMEDOUT,
            f"{self.root}: {_short(str(error))}. Check the address, the rights and {_HADOOP}",
        )


Store = Union[Objects, Hadoop]


@contextmanager
def _missing_is_none() -> Iterator[None]:
    """Leaves the block where an object does not exist, unless its bucket does not either."""
    try:
        yield
    except FileNotFoundError as error:
        if _ABSENCE.search(str(error)):
            raise


def _opened(content: Union[bytes, str]) -> Iterator[Any]:
    with open(content, "rb") if isinstance(content, str) else io.BytesIO(content) as body:
        yield body


def _object(meta: Any) -> Object:
    changed = int(meta["last_modified"].timestamp() * 1e6) * 1000
    return Object(meta["path"], meta["size"], changed, _token(meta))


def _token(meta: Any) -> str:
    """The ETag without quotation marks, which GCS leaves out in listings."""
    return (meta["e_tag"] or meta["version"] or "").strip('"')


def _stamp(meta: Any) -> Stamp:
    return Stamp(_token(meta), meta["version"])


def _short(text: str) -> str:
    """What a store said, in one line, without the query of a URL, which may have a signature."""
    said = re.search(r"<Code>(.*?)</Code>(?:\s*<Message>(.*?)</Message>)?", text, re.DOTALL)
    if said is not None:
        text = ": ".join(filter(None, said.groups()))
    line = re.sub(r"(https?://[^\s?]*)\?\S*", r"\1", " ".join(text.split()))
    line = re.sub(r"(https?://)[^\s/@]*@", r"\1", line)  # A name and a password.
    return line[:300].rstrip(".")


def _package(module: str, command: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            f"paths in stores need a package: {error}. Install it with `{command}`."
        ) from error
