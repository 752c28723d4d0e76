"""The folder of a job after programs were killed in it, and in a store."""

from __future__ import annotations

import errno
import gzip
import os
import zlib
from typing import ClassVar

import pytest

from feature_specs.errors import ConfigError
from feature_specs.files import file_systems, jobs
from feature_specs.files.shards import ShardFile, Written

pytestmark = pytest.mark.no_tensorflow


class Plan(jobs.Plan):
    noun: ClassVar[str] = "work"
    called: ClassVar[dict[str, str]] = {"version": "the form"}

    shards: list[str]

    @property
    def names(self):
        return self.shards


def job(folder, *shards, version=1):
    return jobs.Job(str(folder), Plan(version=version, code="7", shards=[*shards]))


def write(a_job, name, *contents):
    with ShardFile(a_job.folder, name, a_job.temporary) as shard:
        for content in contents:
            shard.write(content, 1)
    return shard.written


@pytest.fixture(params=["", "ram://"])
def folder(request, tmp_path):
    """A folder on a disk, and a folder in a store."""
    if request.param:
        pytest.importorskip("tensorflow")
    return f"{request.param}{tmp_path}/out"


def test_a_job_from_its_start_to_its_end(folder):
    done = job(folder, "a", "b.gz")
    done.check()
    with done.held():
        assert done.begin() == {}
        written = [write(done, "a", b"one", b"two"), write(done, "b.gz", b"three")]
        assert written[0] == Written(name="a", rows=2, bytes=6, crc32=zlib.crc32(b"onetwo"))
        assert gzip.decompress(file_systems.read(f"{folder}/b.gz")) == b"three"
        assert written[1].crc32 == zlib.crc32(file_systems.read(f"{folder}/b.gz"))
        assert job(folder, "a", "b.gz").begin() == {w.name: w for w in written}
        done.finish(jobs.Manifest(shards=written))
    names = ["_MANIFEST.json", "_PLAN.json", "_SUCCESS", "a", "b.gz"]
    assert file_systems.names_in(folder) == names
    again = job(folder, "a", "b.gz")
    with again.held():
        assert again.is_finished and [*again.begin().values()] == written
    with pytest.raises(jobs.FolderError, match=r"differs in the form: 1 there, 2 here; name"):
        job(folder, "a", "b.gz", version=2).check()


@pytest.mark.parametrize("name", ["_PLAN.json", "_MANIFEST.json", "_SUCCESS", "a"])
def test_what_a_killed_program_has_not_finished_is_in_nobodys_way(tmp_path, name):
    (tmp_path / f".tmp-{name}-1").write_text("half")
    (tmp_path / "_unfinished").mkdir()
    (tmp_path / "_unfinished" / f".tmp-{name}-1").write_text("half")
    begun = job(tmp_path, "a")
    with begun.held():
        begun.begin()
        begun.finish(jobs.Manifest(shards=[write(begun, "a", b"row")]))
    assert (tmp_path / "_SUCCESS").read_bytes() == b"" and (tmp_path / "a").read_bytes() == b"row"
    job(tmp_path, "a").check()


def test_a_folder_in_the_place_of_a_shard_is_refused_before_anything_changes(tmp_path):
    done = job(tmp_path, "a")
    with done.held():
        done.begin()
        done.finish(jobs.Manifest(shards=[write(done, "a", b"row")]))
    (tmp_path / "a").unlink()
    (tmp_path / "a").mkdir()
    with pytest.raises(ConfigError, match="/a is a folder, expected a file"):
        job(tmp_path, "a").check()
    assert (tmp_path / "_SUCCESS").exists()


def test_after_an_error_a_shard_is_not_there(folder):
    file_systems.make_folder(f"{folder}/_unfinished")
    with pytest.raises(KeyError), ShardFile(folder, "a.gz", f"{folder}/_unfinished") as shard:
        shard.write(b"one", 1)
        raise KeyError
    assert file_systems.names_in(folder) == ["_unfinished"]
    assert file_systems.names_in(f"{folder}/_unfinished") == []


def test_an_error_of_a_full_disk_says_what_to_do(tmp_path, monkeypatch):
    def full(path, mode):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(file_systems, "open_file", full)
    message = r"/a could not be written: .* are kept: free some space"
    with pytest.raises(OSError, match=message), ShardFile(str(tmp_path), "a", str(tmp_path)):
        pytest.fail("the block must not start")
    assert [*tmp_path.iterdir()] == []


def test_a_torn_note_is_named(tmp_path):
    (tmp_path / "_unfinished").mkdir()
    (tmp_path / "_unfinished" / "a.done").write_text('{"name": "a"}')
    with pytest.raises(ConfigError, match=r"_unfinished/a\.done: rows is missing\. Repair or re"):
        job(tmp_path, "a").begin()
