"""Beam flags that are accepted or refused, and work that runs in a pipeline."""

from __future__ import annotations

import errno
import os
import pathlib
import sys

import pytest

from input_pipelines.errors import DataError, MissingPackageError
from input_pipelines.prepare import beam_runner as beam_flags
from input_pipelines.prepare import beam_runner as beam_runner
from input_pipelines.prepare.beam_runner import BeamFlagsError
from tests.beam import FLAGS, needs_beam


def test_flags_of_a_text():
    text = "--runner=DataflowRunner  --project=ads\n--experiments='a b' --streaming"
    assert beam_flags.split(text) == (
        "--runner=DataflowRunner", "--project=ads", "--experiments=a b", "--streaming",
    )  # fmt: skip
    assert beam_flags.value(["--a=1", "--a=2", "--ab=3"], "a") == "2"
    assert beam_flags.value(["--a"], "a") == ""


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "--runner is missing. Name the runner of the pipeline, such as --runner=DirectRunner "
         "(this machine) or --runner=DataflowRunner"),
        ("--runner= --project=x", "--runner is missing. Name the runner of the pipeline, such as "
         "--runner=DirectRunner (this machine) or --runner=DataflowRunner"),
        ("--runner DirectRunner", "'DirectRunner' is not a flag. Write it as --name=value or "
         "--name"),
        ("-runner=DirectRunner", "'-runner=DirectRunner' is not a flag. Write it as --name=value "
         "or --name"),
        ("--runner=DirectRunner --", "'--' is not a flag. Write it as --name=value or --name"),
        ("--runner='x", "got \"--runner='x\": No closing quotation"),
    ],
)  # fmt: skip
def test_texts_that_are_not_flags(text, message):
    with pytest.raises(BeamFlagsError) as error:
        beam_flags.split(text)
    assert str(error.value) == message


@pytest.mark.parametrize(
    "runner, here",
    [("DirectRunner", True), ("direct", True), ("DataflowRunner", False), ("SparkRunner", False),
     ("apache_beam.runners.portability.fn_api_runner.FnApiRunner", True)],
)  # fmt: skip
def test_which_runners_are_of_this_machine(runner, here):
    assert beam_flags.runs_here([f"--runner={runner}"]) == here


def test_without_beam(monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    with pytest.raises(MissingPackageError) as error:
        beam_runner.check(FLAGS, [])
    assert str(error.value) == (
        "--beam_options needs the package 'apache-beam'; "
        "install it with: pip install 'estimator-kit[beam]'"
    )


@needs_beam
@pytest.mark.parametrize(
    "flags, message",
    [
        (["--direct_num_worker=2"], "Beam has no flag --direct_num_worker. Did you mean "
         "'direct_num_workers'?"),
        (["--zebra"], "Beam has no flag --zebra"),
        (["--direct_num_workers=two"], "argument --direct_num_workers: invalid int value: 'two'"),
    ],
)  # fmt: skip
def test_flags_that_beam_does_not_know(flags, message):
    with pytest.raises(BeamFlagsError) as error:
        beam_runner.check([*FLAGS, *flags], [])
    assert str(error.value) == message


@needs_beam
def test_runners_that_beam_does_not_know():
    with pytest.raises(BeamFlagsError, match="Unexpected pipeline runner: DirectRuner"):
        beam_runner.check(["--runner=DirectRuner"], [])


@needs_beam
def test_paths_for_other_machines():
    flags = ["--runner=PortableRunner", "--job_endpoint=localhost:1"]
    beam_runner.check(flags, ["/data/a.csv", "gs://bucket/a.csv"])
    beam_runner.check(FLAGS, ["a.csv"])
    with pytest.raises(BeamFlagsError) as error:
        beam_runner.check(flags, ["/data/a.csv", "a.csv"])
    assert str(error.value) == (
        "'a.csv' is a relative path, which the workers of the pipeline cannot find. Use a full "
        "path that starts with / or a scheme such as gs://"
    )
    with pytest.raises(BeamFlagsError, match="'temporary' is a relative path"):
        beam_runner.check([*flags, "--temp_location=temporary"], ["/data/a.csv"])
    with pytest.raises(BeamFlagsError) as error, beam_runner.scratch(flags):
        pass
    assert str(error.value) == (
        "--temp_location is missing. Name a folder for results that both the workers and this "
        "program can reach, such as --temp_location=gs://bucket/temporary"
    )


def test_a_folder_for_the_results_of_workers(tmp_path):
    flags = ["--runner=SparkRunner", f"--temp_location={tmp_path}/t"]
    with beam_runner.scratch(flags) as folder:
        assert os.path.dirname(folder) == f"{tmp_path}/t" and os.listdir(folder) == []
    assert not os.path.exists(folder)


def double(common, piece):
    return common + piece * 2


def fail(common, piece):
    if piece == b"2":
        raise DataError("a.csv: row 2: is bad")
    pathlib.Path(common.decode(), piece.decode()).touch()
    return b""


def no_space(common, piece):
    error = {b"0": "out/a could not be written: No space left on device", b"1": "a file"}
    raise OSError(errno.ENOSPC, error[piece], *([] if piece == b"0" else ["a.csv"]))


def bug(common, piece):
    raise KeyError("a bug")


@needs_beam
def test_results_are_in_the_order_of_the_pieces(tmp_path):
    pieces = [b"%d" % i for i in range(30)]
    found = beam_runner.run(double, b"x", iter(pieces), folder=str(tmp_path), flags=FLAGS)
    assert list(found) == [b"x" + piece * 2 for piece in pieces]
    assert list(beam_runner.run(double, b"x", [], folder=str(tmp_path), flags=FLAGS)) == []
    assert os.listdir(tmp_path) == []


@needs_beam
def test_an_error_of_the_data_ends_the_work(tmp_path):
    pieces = [b"%d" % i for i in range(5)]
    with pytest.raises(DataError) as error:
        next(beam_runner.run(
            fail, str(tmp_path).encode(), pieces, folder=f"{tmp_path}/f", flags=FLAGS
        ))  # fmt: skip
    assert str(error.value) == "a.csv: row 2: is bad"
    assert not (tmp_path / "2").exists()


@needs_beam
def test_errors_of_files_keep_their_number_and_bugs_are_shown(tmp_path):
    for piece, text in (
        (b"0", "[Errno 28] out/a could not be written: No space left on device"),
        (b"1", "[Errno 28] a file: 'a.csv'"),
    ):
        with pytest.raises(OSError) as error:
            next(beam_runner.run(no_space, b"", [piece], folder=str(tmp_path), flags=FLAGS))
        assert (error.value.errno, str(error.value)) == (errno.ENOSPC, text)
    with pytest.raises(Exception, match="a bug"):
        next(beam_runner.run(bug, b"", [b""], folder=str(tmp_path), flags=FLAGS))


@needs_beam
def test_an_error_of_a_piece_that_was_done_later_is_not_the_reason(tmp_path):
    full = beam_runner._Trouble(arguments=[28, "No space left on device"])
    full.save(f"{tmp_path}/0.trouble")
    (tmp_path / "0.result").touch()
    assert beam_runner._trouble(str(tmp_path)) is None
    beam_runner._Trouble(arguments=["a broken pipe"]).save(f"{tmp_path}/7.trouble")
    assert str(beam_runner._trouble(str(tmp_path))) == "a broken pipe"


class Handle:
    """A running pipeline that is interrupted or was ended from outside."""

    def __init__(self, error=None):
        self.cancelled = False
        self._error = error

    def wait_until_finish(self):
        if self._error is not None:
            raise self._error

    def cancel(self):
        self.cancelled = True
        raise NotImplementedError


@needs_beam
def test_an_interrupt_cancels_the_pipeline(tmp_path, monkeypatch):
    handle = Handle(KeyboardInterrupt())
    monkeypatch.setattr(beam_runner.library().Pipeline, "run", lambda self: handle)
    with pytest.raises(KeyboardInterrupt):
        next(beam_runner.run(double, b"", [b"1"], folder=str(tmp_path), flags=FLAGS))
    assert handle.cancelled


@needs_beam
def test_a_pipeline_that_ended_early(tmp_path, monkeypatch):
    monkeypatch.setattr(beam_runner.library().Pipeline, "run", lambda self: Handle())
    with pytest.raises(RuntimeError) as error:
        next(beam_runner.run(double, b"", [b"1"], folder=str(tmp_path), flags=FLAGS))
    assert str(error.value) == "the pipeline ended without doing piece 0 of its work"
