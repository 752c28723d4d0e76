"""The error names a damaged checkpoint, and the latest earlier checkpoint that can be read."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
from estimator_kit import exit_codes
from estimator_kit.checkpoints import reading


@pytest.fixture
def folder(tmp_path):
    """A model directory with the checkpoints of steps 5, 10 and 15."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        step = tf.compat.v1.train.get_or_create_global_step()
        tf.compat.v1.get_variable("w", initializer=np.arange(1000, dtype=np.float32))
        saver = tf.compat.v1.train.Saver()
        session.run(tf.compat.v1.global_variables_initializer())
        for number in (5, 10, 15):
            session.run(step.assign(number))
            saver.save(session, f"{tmp_path}/model.ckpt", global_step=number)
    return tmp_path


def flipped(path: pathlib.Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def cut(path: pathlib.Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def folder_instead(path: pathlib.Path) -> None:
    path.unlink()
    path.mkdir()


def remedy(folder: pathlib.Path, name: str) -> str:
    return (
        f". The checkpoint before it, {folder}/{name}, can be read. To go on from there, write the "
        f'line model_checkpoint_path: "{name}" into {folder}/checkpoint.'
    )


@pytest.mark.parametrize("damage", [flipped, cut, pathlib.Path.unlink])
def test_the_file_and_the_checkpoint_before_it_are_named(folder, damage):
    newest = f"{folder}/model.ckpt-15"
    assert reading.damage(newest) is None
    file = f"{newest}.data-00000-of-00001"
    damage(pathlib.Path(file))
    found = reading.damage(newest)
    assert found is not None and found.endswith(remedy(folder, "model.ckpt-10"))
    assert found.startswith(f"{newest}.data-*" if damage is pathlib.Path.unlink else file)
    # The error does not recommend another damaged checkpoint.
    cut(folder / "model.ckpt-10.data-00000-of-00001")
    found = reading.damage(newest)
    assert found is not None and found.endswith(remedy(folder, "model.ckpt-5"))
    cut(folder / "model.ckpt-5.data-00000-of-00001")
    found = reading.damage(newest)
    assert found is not None and found.endswith(
        ". No checkpoint before it can be read. Choose another --model_dir."
    )


def test_a_damaged_index_is_named_before_a_session_reads_it(folder):
    cut(folder / "model.ckpt-15.index")
    for read in (reading.shapes_in, reading.damage):
        try:
            sentence = read(f"{folder}/model.ckpt-15")
        except ek.CheckpointError as error:
            sentence = str(error)
        assert sentence.startswith(f"{folder}/model.ckpt-15.")
        assert sentence.endswith(remedy(folder, "model.ckpt-10"))
    with pytest.raises(ek.CheckpointError, match="is damaged: "):
        reading.latest_step(str(folder))


@pytest.mark.parametrize("damage", [flipped, cut, folder_instead])
def test_an_error_of_a_session_names_the_checkpoint(folder, damage):
    damage(folder / "model.ckpt-15.data-00000-of-00001")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.get_variable("w", [1000])
        saver = tf.compat.v1.train.Saver()
        with pytest.raises(ek.CheckpointError) as error, reading.naming_damage(None, str(folder)):
            saver.restore(session, f"{folder}/model.ckpt-15")
    assert str(error.value).startswith(f"{folder}/model.ckpt-15.data-00000-of-00001 is damaged: ")
    assert exit_codes.exit_code(error.value) == 2


def test_other_errors_stay_what_they_are(folder):
    for raised in (IndexError("x"), tf.errors.DataLossError(None, None, "x"), ek.DataError("x")):
        with pytest.raises(type(raised)) as error, reading.naming_damage(str(folder), None):
            raise raised
        assert error.value is raised


def test_a_file_that_names_no_checkpoint(folder, tmp_path):
    state = folder / "checkpoint"
    for content in (b"", b"\xff\xfe\x00garbage", b"garbage"):
        state.write_bytes(content)
        with pytest.raises(ek.CheckpointError) as error:
            reading.latest(str(folder))
        assert str(error.value) == (
            f"{state} does not exist or names no checkpoint, but its folder has 3. Write the line "
            'model_checkpoint_path: "model.ckpt-15" into it, or choose another --model_dir.'
        )
    empty = tmp_path / "empty"
    empty.mkdir()
    assert reading.latest(str(empty)) is None
    (empty / "checkpoint").touch()
    with pytest.raises(ek.CheckpointError, match="names no checkpoint, and its folder has none"):
        reading.latest(str(empty))


def test_a_first_save_that_was_cut_off_is_made_again(tmp_path):
    for end in ("index", "data-00000-of-00001"):
        (tmp_path / f"model.ckpt-0.{end}").touch()
    assert reading.latest(str(tmp_path)) is None
    (tmp_path / "checkpoint").touch()  # It was there, and is damaged.
    with pytest.raises(ek.CheckpointError, match="names no checkpoint"):
        reading.latest(str(tmp_path))


def test_only_numbers_are_steps(tmp_path):
    for step in ("10", "9", "²", "best"):
        (tmp_path / f"model.ckpt-{step}.index").touch()
    assert reading.steps_of(str(tmp_path)) == {
        9: f"{tmp_path}/model.ckpt-9", 10: f"{tmp_path}/model.ckpt-10",
    }  # fmt: skip
