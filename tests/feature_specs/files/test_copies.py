"""Copies of files in servers of S3, GCS and Azure, whose requests a proxy counts and breaks."""

import contextlib
import errno
import os
import pathlib
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("obstore")

from feature_specs.errors import ConfigError, Locked
from feature_specs.files import copies, leases, stores, urls
from tests.stores import servers
from tests.stores.proxy import every


@pytest.fixture(scope="module", params=["s3", "gs", "az"])
def server(request, tmp_path_factory):
    """(The start of URLs, the proxy)"""
    folder = tmp_path_factory.mktemp("server")
    with (
        servers.started(request.param, str(folder)) as (proxy, variables),
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in variables.items():
            patch.setenv(name, value)
        patch.setattr(stores, "TIMEOUT_SECS", 2)
        stores._store.cache_clear()
        yield f"{request.param}://{servers.BUCKET}", proxy
        stores._store.cache_clear()


@pytest.fixture
def bucket(server, request, monkeypatch):
    """The same, with its own prefix, and nothing seen."""
    start, proxy = server
    proxy.seen.clear()
    monkeypatch.setattr(copies, "PUT_SECS", 1000.0)  # Tests say when.
    yield f"{start}/{request.node.originalname}", proxy
    proxy.fails = lambda: None


def put(url, **contents):
    store, key = stores.find(url)
    for name, content in contents.items():
        store.put(f"{key}/{name}".replace("__", "/"), content.encode())


def content(url):
    store, key = stores.find(url)
    found = {each.key[len(key) + 1 :]: store.read(each.key)[0] for each in store.objects(key)}
    return {name: value.decode() for name, value in found.items()}


def test_an_object_is_fetched_once(bucket, tmp_path):
    url, proxy = bucket
    put(url, dt_1__a="one", dt_1__b="two", dt_2__a="three", dt_1___SUCCESS="", dt_2__other="no")
    proxy.seen.clear()
    with copies.used(str(tmp_path)):
        pattern = copies.local(f"{url}/dt_*/[ab]")
        found = copies.matches(pattern)
        names = [os.path.relpath(path, copies.local(url)) for path in found]
        assert sorted(names) == ["dt_1/a", "dt_1/b", "dt_2/a"]
        assert sorted(pathlib.Path(path).read_text() for path in found) == ["one", "three", "two"]
        assert os.path.exists(copies.local(f"{url}/dt_1/_SUCCESS"))
        assert copies.url(found[0]).startswith(url)
        assert urls.shown(f"see {found[0]}.").startswith(f"see {url}/dt_")
        for name in ("dt_1/a", "dt_1/b", "dt_2/a", "_SUCCESS"):
            assert len(proxy.of("GET", name)) == 1
        assert not proxy.of("GET", "other")
    proxy.seen.clear()
    with copies.used(str(tmp_path)):  # Another start.
        assert sorted(copies.matches(pattern)) == sorted(found)
        assert not proxy.of("GET", "a") and not proxy.of("GET", "b")
        put(url, dt_2__a="THREE")  # The same size.
        copies.matches(pattern)
        assert len(proxy.of("GET", "dt_2/a")) == 1 and not proxy.of("GET", "b")
        assert pathlib.Path(copies.local(f"{url}/dt_2/a")).read_text() == "THREE"
        folders = copies.matches(copies.local(f"{url}/dt_*"), with_folders=True)
        assert sorted(map(os.path.basename, folders)) == ["dt_1", "dt_2"]
        assert copies.matches("/elsewhere/*") is None


def test_a_folder_is_put_in_the_order_of_its_writing(bucket, tmp_path):
    url, proxy = bucket
    put(url, kept="kept", removed="removed", changed="old", checkpoint="step 1")
    with copies.used(str(tmp_path)):
        folder = pathlib.Path(copies.local(url))
        with copies.folders([str(folder), "/elsewhere"]):
            assert (folder / "kept").read_text() == "kept"
            proxy.seen.clear()
            for name in ("model-2.data", "model-2.index", "checkpoint", "changed", "z", "a"):
                (folder / name).write_text(f"{name} 2")
            (folder / "export" / "7" / "variables").mkdir(parents=True)
            for name in ("saved_model.pb", "variables/data", "spec"):
                (folder / "export/7" / name).write_text(name)
            for name in (".tmp-a-1", "checkpoint.tmp1234567", "_LOCK"):
                (folder / name).write_text("temporary")
            (folder / "removed").unlink()
        order = [each.path.rpartition(url.rpartition("/")[2] + "/")[2] for each in proxy.of("PUT")]
        order = [name for name in order if name != "lock.json"]
        assert max(map(order.index, ["model-2.data", "model-2.index"])) < order.index("checkpoint")
        assert order[-3:] == ["export/7/spec", "export/7/variables/data", "export/7/saved_model.pb"]
        own = [each for each in proxy.seen if not each.path.endswith("lock.json")]
        last = max(number for number, each in enumerate(own) if each.method == "PUT")
        assert any(  # S3 and Azure remove with a POST.
            e.method == "DELETE" or e.path.endswith(("?delete", "comp=batch")) for e in own[last:]
        )
        found = content(url)
        assert sorted(found) == sorted([*order, "kept"])
        assert found["changed"] == "changed 2" and found["checkpoint"] == "checkpoint 2"
    # A start on another machine has the same files; the same start again fetches none.
    for root, gets in ((tmp_path / "other", len(found)), (tmp_path, 0)):
        proxy.seen.clear()
        with copies.used(str(root)):
            folder = pathlib.Path(copies.local(url))
            with copies.folders([str(folder)]):
                assert {name: (folder / name).read_text() for name in found} == found
        own = ("lock.json", "checkpoint")
        assert len([s for s in proxy.of("GET") if not s.path.endswith(own)]) == max(0, gets - 1)
        assert all(each.path.endswith("lock.json") for each in proxy.of("PUT"))


@pytest.mark.parametrize("end", ["removed", "replaced", "removed, and no answer came"])
def test_a_file_that_changes_while_it_is_put(bucket, tmp_path, monkeypatch, end):
    url, _ = bucket
    url += f"/{end[-2:]}"
    was_put, put_it = threading.Event(), copies._Folder.put

    def put_and_change(self, path):
        stamp = put_it(self, path)
        if not was_put.is_set():
            os.remove(path) if "removed" in end else pathlib.Path(path).write_text("22")
            was_put.set()
            if "no answer" in end:
                raise stores.StoreError(errno.ETIMEDOUT, "no answer")
        return stamp

    monkeypatch.setattr(copies._Folder, "put", put_and_change)
    monkeypatch.setattr(copies, "PUT_SECS", 0.01)
    with copies.used(str(tmp_path)):
        folder = pathlib.Path(copies.local(url))
        with copies.folders([str(folder)]):
            (folder / "unfinished.json").write_text("1")
            assert was_put.wait(60)
    assert content(url) == ({"unfinished.json": "22"} if end == "replaced" else {})


def test_one_start_holds_a_folder(bucket, tmp_path):
    url, _ = bucket
    with copies.used(str(tmp_path / "one")):
        folder = pathlib.Path(copies.local(url))
        with copies.folders([str(folder)]):
            (folder / "a").write_text("of the first")
            store, key = stores.find(url)
            with pytest.raises(Locked, match=r"is locked by .* process \d+\. Only one start works"):
                leases.Lock(store, key, 120.0).take()
        assert content(url) == {"a": "of the first"}


@pytest.mark.parametrize("is_old", [False, True])
def test_of_many_starts_at_once_one_holds_the_folder(bucket, is_old):
    url, _ = bucket
    store, key = stores.find(f"{url}/{is_old}")
    if is_old:
        leases.Lock(store, key, 120.0).take()  # Its process was killed.
    locks = [leases.Lock(store, key, 0.0 if is_old else 120.0) for _ in range(8)]
    together = threading.Barrier(len(locks))

    def take(lock):
        found = store.read(lock._key)
        together.wait()  # All of them have seen the same state.
        try:
            if found is not None:
                lock._stamp = found[1]
            lock._put()
        except Locked:
            return False
        return True

    with ThreadPoolExecutor(len(locks)) as pool:
        held = list(pool.map(take, locks))
    assert sum(held) == 1
    for lock, is_held in zip(locks, held):
        if is_held:
            lock.renew()
        else:
            with pytest.raises(Locked):
                lock.check()
        lock.release()
    assert content(f"{url}/{is_old}") == {}


def test_a_lost_lock_puts_nothing(bucket, tmp_path):
    url, _ = bucket
    with copies.used(str(tmp_path / "one")):
        folder = pathlib.Path(copies.local(url))
        with pytest.raises(Locked), copies.folders([str(folder)], stale_secs=0.0):
            (folder / "a").write_text("of the first")
            store, key = stores.find(url)
            other = leases.Lock(store, key, 0.0)
            other.take()  # It counts as left behind.
        assert sorted(content(url)) == ["lock.json"]
        other.release()
        assert content(url) == {}


@pytest.mark.parametrize("is_killed", [True, False])
def test_the_first_checkpoint_of_a_killed_start_counts_when_it_is_whole(
    bucket, tmp_path, is_killed
):
    url, _ = bucket
    url += f"/{is_killed}"
    put(url, model__ckpt="")  # Another file.
    for place in ("", "cycles/"):
        store, key = stores.find(url)
        for end in ("index", "data-00000-of-00001"):
            store.put(f"{key}/{place}model.ckpt-200.{end}", b"of the killed one")
    store.put(f"{key}/whole/model.ckpt-7.index", b"kept")
    store.put(f"{key}/whole/checkpoint", b"kept")
    if is_killed:
        leases.Lock(store, key, 120.0).take()
    with copies.used(str(tmp_path)):
        folder = pathlib.Path(copies.local(url))
        with copies.folders([str(folder)], stale_secs=0.0 if is_killed else 120.0):
            found = list(folder.rglob("*ckpt-200*"))
            assert len(found) == (0 if is_killed else 4)
    assert len([name for name in content(url) if "200" in name]) == (0 if is_killed else 4)
    assert content(url)["whole/model.ckpt-7.index"] == "kept"


@pytest.mark.parametrize("failure", ["503", "429", "cut", "hang", "lost"])
def test_every_seventh_request_fails(bucket, tmp_path, failure):
    url, proxy = bucket
    url += f"/{failure}"
    texts = {f"file_{i}": f"{i}" * 5000 for i in range(12)}
    put(url, **texts)
    proxy.fails = every(7, [failure])
    with copies.used(str(tmp_path)):
        folder = pathlib.Path(copies.local(url))
        with copies.folders([str(folder)]):
            assert {name: (folder / name).read_text() for name in texts} == texts
            for name in texts:
                (folder / name).write_text(name * 1000)
            (folder / "checkpoint").write_text("12")
    proxy.fails = lambda: None
    assert content(url) == {**{name: name * 1000 for name in texts}, "checkpoint": "12"}
    assert any(each.failure == failure for each in proxy.seen)


def test_what_cannot_be_reached(bucket, tmp_path):
    url, _ = bucket
    with copies.used(str(tmp_path)):
        assert not copies.fetched(copies.local(f"{url}/none"))
        none = copies.snapshot(copies.local(f"{url}/none"))
        with pytest.raises(ConfigError, match=r"does not exist\. Check its name"), none:
            pass
        if url.startswith("s3"):  # The server of GCS says 500.
            with pytest.raises(stores.StoreError, match="no-such-bucket does not exist") as error:
                copies.fetched(copies.local("s3://no-such-bucket/a"))
            assert error.value.errno == errno.ENOENT
        with pytest.raises(ConfigError, match=r"without `\.\.`"):
            copies.local(f"{url}/../a")


def test_copies_have_a_limit(bucket, tmp_path):
    url, _ = bucket
    put(url, a="a" * 600, b="b" * 600)
    with copies.used(str(tmp_path), limit=1000):
        copies.fetched(copies.local(f"{url}/a"))
        with pytest.raises(ConfigError, match="are read, and --copies_gib leaves"):
            copies.fetched(copies.local(f"{url}/b"))
        (note,) = [path for path in (tmp_path / "_known").rglob("*") if path.is_file()]
        os.utime(note, (0, 0))  # Nobody has used it for a day.
        copies.fetched(copies.local(f"{url}/b"))
        assert not os.path.exists(copies.local(f"{url}/a"))


def test_a_look_at_a_folder_in_use_changes_nothing_and_puts_what_it_adds(bucket, tmp_path):
    """Another process looks while this one holds the folder, with the same copies."""
    url, _ = bucket
    put(url, report="old", checkpoint='model_checkpoint_path: "model.ckpt-1"')
    put(url, **{"model.ckpt-1.index": "1"})
    look = (
        "import pathlib, sys\n"
        "from feature_specs.files import copies\n"
        "with copies.used(sys.argv[1]), copies.snapshot(copies.local(sys.argv[2])) as path:\n"
        "    seen = pathlib.Path(path)\n"
        "    assert (seen / 'report').read_text() == 'old' and not (seen / 'new').exists()\n"
        "    assert copies.url(path) == sys.argv[2]\n"
        "    (seen / 'page.html').write_text('page')\n"
        "    (seen / 'checkpoint').write_text('another')\n"
    )
    with copies.used(str(tmp_path)):
        folder = pathlib.Path(copies.local(url))
        with copies.folders([str(folder)]):
            (folder / "report").write_text("newer")
            (folder / "new").write_text("new")
            run = subprocess.run([sys.executable, "-c", look, str(tmp_path), url], check=False)
            assert run.returncode == 0
            assert (folder / "report").read_text() == "newer" and (folder / "new").exists()
            assert content(url)["page.html"] == "page"
        assert content(url)["report"] == "newer" and "ckpt-1" in content(url)["checkpoint"]
    assert not list((tmp_path / "_private").iterdir())


@pytest.mark.parametrize(("first", "second"), [("a", "a/b"), ("a/b", "a"), ("a/b/c", "a")])
def test_starts_in_folders_of_each_other_exclude_each_other(bucket, tmp_path, first, second):
    url, _ = bucket
    put(url, a__b__file="kept")
    with copies.used(str(tmp_path / "one")), contextlib.ExitStack() as stack:
        stack.enter_context(copies.folders([copies.local(f"{url}/{first}")]))
        stack.enter_context(copies.used(str(tmp_path / "two")))
        inner = copies.folders([copies.local(f"{url}/{second}")])
        with pytest.raises(Locked, match=f"{first} is locked by"), inner:
            pass
    assert content(url) == {"a/b/file": "kept"}


def test_copies_that_are_removed_during_a_run_stay_in_the_store(bucket, tmp_path):
    url, _ = bucket
    state = {"checkpoint": 'model_checkpoint_path: "model.ckpt-2"', "model.ckpt-2.index": "2"}
    put(url, **state, other="other")
    with copies.used(str(tmp_path)):
        folder = pathlib.Path(copies.local(url))
        for gone in (folder, folder / "model.ckpt-2.index", folder / "checkpoint"):
            held = copies.folders([str(folder)])
            with pytest.raises(Locked, match="were removed during the run"), held:
                shutil.rmtree(gone) if gone == folder else gone.unlink()
            assert content(url) == {**state, "other": "other"}


def test_a_lock_is_only_removed_by_its_owner(bucket):
    url, _ = bucket
    store, key = stores.find(url)
    first, second = leases.Lock(store, key, 0.0), leases.Lock(store, key, 0.0)
    first.take()
    second.take()
    first.release()
    assert list(content(url)) == ["lock.json"]
    second.release()
    assert content(url) == {}


def test_names_with_wildcards_are_names_first(bucket, tmp_path):
    url, _ = bucket
    names = ("part[1].csv", "part1.csv", "_data.csv")
    for name in names:
        store, key = stores.find(url)
        store.put(f"{key}/{name}", b"")
    with copies.used(str(tmp_path)):
        for pattern, expected in (
            ("part[1].csv", ["part1.csv", "part[1].csv"]), ("_data.csv", ["_data.csv"]),
            ("_*.csv", ["_data.csv"]), ("*.csv", sorted(names)),
        ):  # fmt: skip
            found = copies.matches(copies.local(f"{url}/{pattern}"))
            assert sorted(map(os.path.basename, found)) == expected


def test_secrets_and_odd_folders_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"without a name and a secret\. Set AWS_") as error:
        stores.find("s3://KEY:SECRET@ads/a")
    assert "SECRET" not in str(error.value).replace("AWS_SECRET_ACCESS_KEY", "")
    said = stores._short("error at http://user:hunter2@127.0.0.1:1/a?sig=x")
    assert said == "error at http://127.0.0.1:1/a"
    for folder, message in ((tmp_path / "kö", "ASCII"), ("/proc/x", "cannot be made")):
        used = copies.used(str(folder))
        with pytest.raises(ConfigError, match=f"--copies_dir: .*{message}"), used:
            pass
