"""What each failure of a store becomes: an error with a status, the place, and what to check."""

import socket

import pytest

pytest.importorskip("obstore")

from estimator_kit import exit_codes
from feature_specs.errors import ConfigError
from feature_specs.files import stores
from tests.stores import servers


@pytest.fixture(scope="module", params=["s3", "gs", "az"])
def server(request, tmp_path_factory):
    """(The start of URLs, the proxy, the variables)"""
    folder = tmp_path_factory.mktemp("server")
    with servers.started(request.param, str(folder)) as (proxy, variables):
        yield f"{request.param}://{servers.BUCKET}", proxy, variables


@pytest.fixture
def reached(server, monkeypatch):
    url, proxy, variables = server
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(stores, "TIMEOUT_SECS", 1)
    monkeypatch.setattr(stores, "RETRY_SECS", 10)
    stores._store.cache_clear()
    yield url, proxy
    proxy.fails = lambda: None
    stores._store.cache_clear()


# What S3, GCS and Azure answer with the first byte of their bodies; XML as in their documentation.
FAILURES = {
    "refused": ("403 <Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>", 2),
    "wrong signature": ("403 <Error><Code>SignatureDoesNotMatch</Code></Error>", 2),
    "expired token": ("400 <Error><Code>ExpiredToken</Code></Error>", 2),
    "no credentials": ("401 <Error><Code>NoAuthenticationInformation</Code></Error>", 2),
    "another region": ("301 <Error><Code>PermanentRedirect</Code></Error>", 2),
    "busy": ("503 <Error><Code>SlowDown</Code></Error>", 75),
    "throttled": ("429 ", 75),
    "broken": ("500 ", 75),
    "timeout of a gateway": ("504 ", 75),
    "silent": ("hang", 75),
}

REQUESTS = {
    "level": lambda store: store.level("a"),
    "objects": lambda store: store.objects("a"),
    "read": lambda store: store.read("a/b"),
    "put": lambda store: store.put("a/b", b"{}"),
    "put if absent": lambda store: store.put("a/b", b"{}", only_if=stores.ABSENT),
    "remove": lambda store: store.remove("a/b"),
}


@pytest.mark.parametrize("request_name", REQUESTS)
@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_has_a_status_and_says_what_to_check(reached, failure, request_name, monkeypatch):
    url, proxy = reached
    monkeypatch.setattr(stores, "RETRY_SECS", 0.3)
    monkeypatch.setattr(stores, "_PAUSE_SECS", 0.1)
    answer, status = FAILURES[failure]
    proxy.fails = lambda: answer
    store, _ = stores.find(url)
    with pytest.raises(stores.StoreError) as error:
        REQUESTS[request_name](store)
    text = str(error.value)
    assert exit_codes.exit_code(error.value) == status, text
    assert text.startswith(url) and "\n" not in text
    assert any(name in text for name in stores.VARIABLES[url.partition(":")[0]].split(", ")), text
    assert servers._KEY not in text and "a-secret-of-tests" not in text


@pytest.mark.parametrize("request_name", REQUESTS)
@pytest.mark.parametrize("failure", ["503", "429", "hang", "cut", "lost"])
def test_a_request_that_fails_once_is_sent_again(reached, failure, request_name):
    url, proxy = reached
    store, _ = stores.find(url)
    store.remove("a/b")
    if request_name in ("level", "objects", "read"):
        store.put("a/b", b"content")
    failures = iter([failure])
    proxy.fails = lambda: next(failures, None)
    try:
        found = REQUESTS[request_name](store)
    except stores.Changed:  # Ours was put, and the answer to it was lost.
        assert (failure, request_name) == ("lost", "put if absent")
        found = store.read("a/b")[1]
    if request_name == "read":
        assert found[0] == b"content"
    elif request_name == "remove":
        assert store.read("a/b") is None
    elif request_name.startswith("put"):
        assert store.read("a/b")[:2] == (b"{}", found)
    elif request_name == "level":
        assert [each.key for each in found[1]] == ["a/b"]
    else:
        assert [each.key for each in found] == ["a/b"]


@pytest.mark.parametrize("place", ["a closed port", "an unknown host"])
def test_a_store_that_cannot_be_reached_may_be_tried_again(server, monkeypatch, tmp_path, place):
    url, proxy, variables = server
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}" if place == "a closed port" else "http://store.invalid"
    for name, value in variables.items():
        if name == "GOOGLE_SERVICE_ACCOUNT":
            with open(value, encoding="utf-8") as file:
                content = file.read()
            account = tmp_path / "account.json"
            account.write_text(content.replace(proxy.address, address), encoding="utf-8")
            value = str(account)
        monkeypatch.setenv(name, value.replace(proxy.address, address))
    monkeypatch.setattr(stores, "RETRY_SECS", 1)
    stores._store.cache_clear()
    store, _ = stores.find(url)
    with pytest.raises(stores.StoreError, match="Try again later, or check the endpoint") as error:
        store.read("a")
    assert exit_codes.exit_code(error.value) == 75
    stores._store.cache_clear()


def test_what_does_not_exist(reached):
    url, _ = reached
    store, _ = stores.find(url)
    assert store.objects("none") == [] and store.read("none") is None
    assert store.level("none") == ([], [])
    store.remove("none")
    other = f"{url.partition(':')[0]}://nosuchbucket"
    if other.startswith("gs"):
        return  # The server answers 500.
    for name, ask in REQUESTS.items():
        if name != "remove":  # Nothing is there.
            with pytest.raises(stores.StoreError, match=f"{other} does not exist") as error:
                ask(stores.find(other)[0])
            assert exit_codes.exit_code(error.value) == 2


def test_a_url_without_a_bucket_is_refused():
    with pytest.raises(ConfigError, match="expected a bucket after the slashes: s3://bucket"):
        stores.find("s3:///a")


def test_hadoop_with_the_file_system_of_this_machine(tmp_path):
    """The calls of pyarrow are the same; nobody has tried it with a server of HDFS."""
    arrow = pytest.importorskip("pyarrow.fs")
    files = arrow.SubTreeFileSystem(str(tmp_path), arrow.LocalFileSystem())
    store = stores.Hadoop("hdfs://names:8020", files)
    (tmp_path / "source").write_text("abc")
    stamp = store.put("a/b/c", str(tmp_path / "source"))
    assert store.put("a/d", b"d") != stamp
    assert store.read("a/b/c")[0] == b"abc" and store.read("a/b") is None
    folders, objects = store.level("a")
    assert folders == ["a/b"] and [each.key for each in objects] == ["a/d"]
    (found,) = store.objects("a/b")
    assert (found.key, found.size) == ("a/b/c", 3)
    store.fetch(found, str(tmp_path / "fetched"))
    assert (tmp_path / "fetched").read_text() == "abc"
    store.put("a/b/c", b"abcd")
    with pytest.raises(stores.Changed):
        store.fetch(found, str(tmp_path / "fetched"))
    with pytest.raises(stores.NoConditions):
        store.put("a/b/c", b"", only_if=stores.ABSENT)
    store.remove("a/b/c")
    store.remove("a/b/c")
    assert store.objects("a/b") == [] and store.objects("none") == []
