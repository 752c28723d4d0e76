"""The folder of an analysis while two analyses write it."""

from __future__ import annotations

import threading

import pytest

from input_pipelines.prepare.analyze import folder

pytestmark = pytest.mark.no_tensorflow


@pytest.mark.parametrize("exists", [False, True])
def test_two_analyses_of_one_folder_do_not_mix(tmp_path, exists):
    for number in range(30):
        place, start = tmp_path / str(number), threading.Barrier(2)
        if exists:
            folder.publish(place, {"spec.yaml": "old", "old.txt": "old"})

        def write(text, place=place, start=start):
            start.wait()
            folder.publish(place, {f"{name}.txt": text for name in (text, *"abcdefgh")})

        threads = [threading.Thread(target=write, args=(text,)) for text in ("one", "two")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = {path.name: path.read_text() for path in place.iterdir()}
        folder.check(place)
        del found["manifest.json"]
        assert found in [{f"{name}.txt": text for name in (text, *"abcdefgh")}
                         for text in ("one", "two")]  # fmt: skip
    assert len([*tmp_path.iterdir()]) == 30


def test_two_refreshes_of_one_folder_do_not_mix(tmp_path):
    names = [f"{name}.txt" for name in "abcdefgh"]
    for number in range(30):
        place, start = tmp_path / str(number), threading.Barrier(2)
        folder.publish(place, {"spec.yaml": "old", **dict.fromkeys(names, "old")})

        def write(text, place=place, start=start):
            start.wait()
            folder.refresh(place, dict.fromkeys(names, text))

        threads = [threading.Thread(target=write, args=(text,)) for text in ("one", "two")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        folder.check(place)  # Otherwise the files look edited.
        assert len({(place / name).read_text() for name in names}) == 1
