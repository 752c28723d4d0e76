"""flagfile: lines that absl would not read as they were meant, and lines that are fine."""

from __future__ import annotations

import os
import pathlib

import pytest
from absl import flags

from estimator_kit.config import flagfile
from estimator_kit.config.flagfile import check_flagfiles, split_flagfiles
from estimator_kit.config.flags import define_flags, known_names
from estimator_kit.errors import ConfigError

pytestmark = pytest.mark.no_tensorflow


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def write(name, text):
    pathlib.Path(name).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(name).write_bytes(text.encode())


def problems_of(*arguments):
    with pytest.raises(ConfigError) as error:
        check_flagfiles(arguments)
    return str(error.value).split("\n")


def absl_values(*arguments):
    """What absl makes of a command line."""
    values = flags.FlagValues()
    define_flags(values)
    assert values(["run.py", *arguments])[1:] == []
    return values


COMMENT = "a comment after a value becomes part of the value. Write it on its own line."
QUOTES = "quotes become part of the value. Remove them."
VARIABLE = "a flagfile does not expand variables. Write the value itself."
NO_EQUALS = "absl reads the whole line as one flag. Write --flag=value with an equals sign."
NO_FLAG = "expected --flag=value or a comment that starts with #."
NO_PATH = "--flagfile has no path. Write --flagfile=path."
BLANKS = "the equals sign has a space next to it. Remove the space."
INDENTED = "absl recognizes comments and --flagfile only in the first column. Remove the indent."


# --- Lines ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line, problem",
    [
        ("--spec=a.yaml # the spec", COMMENT),
        ("--spec=a.yaml\t# the spec", COMMENT),
        ("--spec=a.yaml // the spec", COMMENT),
        ("--model_params=a=[1, 2] #two", COMMENT),
        ("--spec='a.yaml'", QUOTES),
        ('--spec="a.yaml"', QUOTES),
        ("--spec=''", QUOTES),
        ('--model_params="hidden_units=[4]"', QUOTES),
        ("--spec a.yaml", NO_EQUALS),
        ("-spec a.yaml", NO_EQUALS),
        ("--batch_size\t5", NO_EQUALS),
        ("--flagfile other.flags", NO_EQUALS),
        ("--shuffle # yes", NO_EQUALS),
        ("--model_dir=$HOME/run", VARIABLE),
        ("--model_dir=${HOME}/run", VARIABLE),
        ("--train_files=a,$X/b", VARIABLE),
        ("--train_files=gs://$BUCKET/b", VARIABLE),
        ("spec=a.yaml", NO_FLAG),
        ("a.yaml", NO_FLAG),
        ("; a comment", NO_FLAG),
        pytest.param(
            "--model_dir=$(pwd)/run", VARIABLE,
        ),
        pytest.param(
            "--model_dir=~/run",
            "a flagfile does not expand ~. Write the full path.",
        ),
        pytest.param("--spec = a.yaml", BLANKS),
        pytest.param("--spec= a.yaml", BLANKS),
        pytest.param("--", "this line ends the flags. Remove it."),
        pytest.param("--flagfile", NO_PATH),
        pytest.param("--flagfile=", NO_PATH),
        pytest.param(
            "--flagfile=other.flags # more", COMMENT,
        ),
        pytest.param("--flagfile='other.flags'", QUOTES),
        pytest.param("--flagfile=$HOME/other.flags", VARIABLE),
    ],
)  # fmt: skip
def test_lines_that_would_not_mean_what_they_say(line, problem):
    write("x.flags", f"# first\n{line}\n--seed=2\n")
    assert problems_of("--flagfile=x.flags") == [f"x.flags:2: {line!r}: {problem}"]


@pytest.mark.parametrize(
    "line", ["  # a comment", "\t// a comment", "  --flagfile=x.flags"], ids=["#", "//", "flagfile"]
)
def test_indented_comments_and_flagfiles_are_none_to_absl(line):
    write("x.flags", f"{line}\n--seed=2\n")
    assert problems_of("--flagfile=x.flags") == [f"x.flags:1: {line.strip()!r}: {INDENTED}"]


@pytest.mark.parametrize(
    "line, flag, value",
    [
        ("--spec=a.yaml", "spec", "a.yaml"),
        ("-spec=a.yaml", "spec", "a.yaml"),
        ("  --spec=a.yaml  ", "spec", "a.yaml"),
        ("--spec=a.yaml\r", "spec", "a.yaml"),
        ("--spec=", "spec", ""),
        ("--spec=a b.yaml", "spec", "a b.yaml"),
        ("--spec=a#b.yaml", "spec", "a#b.yaml"),
        ("--spec=#1.yaml", "spec", "#1.yaml"),
        ("--spec=gs://bucket//a.yaml", "spec", "gs://bucket//a.yaml"),
        ("--spec=it's.yaml", "spec", "it's.yaml"),
        ("--spec='", "spec", "'"),
        ("--spec=a=b", "spec", "a=b"),
        ("--spec=100$", "spec", "100$"),
        ("--spec=日本.yaml", "spec", "日本.yaml"),
        ("--warm_start_vars=^dnn/.*$", "warm_start_vars", "^dnn/.*$"),
        ("--warm_start_vars=(a|b)$|c", "warm_start_vars", "(a|b)$|c"),
        ("--noshuffle", "shuffle", False),
        ("--shuffle", "shuffle", True),
        ("--shuffle=false", "shuffle", False),
        ("--seed=-3", "seed", -3),
        ('--train_files="a,b",c', "train_files", ["a,b", "c"]),
        ("--train_files=a-0[1-7]/*.tfrecord, b", "train_files", ["a-0[1-7]/*.tfrecord", "b"]),
        ("--model_params=", "model_params", [""]),
        ('--model_params=a={"b": "#1"}', "model_params", ['a={"b": "#1"}']),
        ('--model_params=a="x"', "model_params", ['a="x"']),
        pytest.param("--spec=a\u2028b", "spec", "a\u2028b"),
    ],
)
def test_harmless_lines_stay_harmless(line, flag, value):
    write("x.flags", f"# a comment # with another\n\n   \n// and one more\n{line}\n")
    check_flagfiles(["--flagfile=x.flags"])
    assert absl_values("--flagfile=x.flags")[flag].value == value


def test_all_lines_that_are_wrong_are_told_at_once():
    write("x.flags", "--spec='a'\n--seed=1\nb\n--model_dir=$X\n")
    assert problems_of("--seed=1", "--flagfile=x.flags") == [
        f"x.flags:1: \"--spec='a'\": {QUOTES}",
        f"x.flags:3: 'b': {NO_FLAG}",
        f"x.flags:4: '--model_dir=$X': {VARIABLE}",
    ]


# --- Files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["--flagfile=x.flags"], ["-flagfile=x.flags"], ["--flagfile", "x.flags"],
        ["--seed=1", "--flagfile", "x.flags", "--seed=2"],
        ["--flagfile=good.flags", "--flagfile=x.flags"], ["--flagfile=~/../x.flags"],
        ["--flagfile", "~/../x.flags"],
    ],
)  # fmt: skip
def test_every_way_to_name_a_flagfile(arguments):
    os.mkdir("home")
    write("good.flags", "--seed=1\n")
    write("x.flags", "b\n")
    [problem] = problems_of(*arguments)
    assert problem.endswith(f"x.flags:1: 'b': {NO_FLAG}")


@pytest.mark.parametrize(
    "arguments",
    [
        [], ["--spec=x.flags"], ["--flagfiles=x.flags"], ["flagfile=x.flags"],
        ["--", "--flagfile=x.flags"],
    ],
)  # fmt: skip
def test_what_names_no_flagfile(arguments):
    write("x.flags", "b\n")
    check_flagfiles(arguments)


def start_at():
    return f" Relative paths start at {os.getcwd()}."


def test_a_flagfile_that_is_missing():
    reason = "No such file or directory."
    assert problems_of("--flagfile=a/x.flags") == [
        f"the command line: cannot read the flagfile 'a/x.flags': {reason}{start_at()}"
    ]
    assert problems_of("--flagfile", "/nope/x.flags") == [
        f"the command line: cannot read the flagfile '/nope/x.flags': {reason}"
    ]


@pytest.mark.parametrize("arguments", [["--flagfile"], ["--flagfile="]])
def test_a_flagfile_without_a_name(arguments):
    assert problems_of(*arguments) == [f"the command line: {NO_PATH}"]


def test_flagfiles_that_cannot_be_read():
    os.mkdir("folder")
    pathlib.Path("latin.flags").write_bytes(b"# \xfc\n")
    assert problems_of("--flagfile=folder", "--flagfile=latin.flags") == [
        f"the command line: cannot read the flagfile 'folder': Is a directory.{start_at()}",
        "the command line: cannot read the flagfile 'latin.flags': 'utf-8' codec can't decode "
        f"byte 0xfc in position 2: invalid start byte.{start_at()}",
    ]
    (problem,) = problems_of("--flagfile=a\0b")
    assert problem.startswith(r"the command line: cannot read the flagfile 'a\x00b': ")
    assert "embedded null" in problem


def test_flagfiles_in_flagfiles():
    write("x.flags", "--seed=1\n--flagfile=sub/y.flags\n-flagfile=~/z.flags\n")
    write("sub/y.flags", "--spec='a'\n")
    write("home/z.flags", "b\n")
    assert problems_of("--flagfile=x.flags") == [
        f"sub/y.flags:1: \"--spec='a'\": {QUOTES}",
        f"{os.getcwd()}/home/z.flags:1: 'b': {NO_FLAG}",
    ]


def test_a_nested_path_starts_at_the_working_folder_too():
    write("sub/x.flags", "--flagfile=y.flags\n")
    write("sub/y.flags", "b\n")
    assert problems_of("--flagfile=sub/x.flags") == [
        "sub/x.flags:1: cannot read the flagfile 'y.flags': No such file or directory." + start_at()
    ]


def test_a_flagfile_that_includes_itself():
    """absl would silently ignore the line."""
    write("x.flags", "--seed=3\n--flagfile=x.flags\n")
    assert problems_of("--flagfile=x.flags") == [
        "x.flags:2: the flagfile 'x.flags' includes itself. Remove the line."
    ]
    write("x.flags", "--flagfile=y.flags\n")
    write("y.flags", "--seed=3\n--flagfile=./x.flags\n")
    assert problems_of("--flagfile=x.flags", "--flagfile=y.flags") == [
        "y.flags:2: the flagfile './x.flags' includes itself. Remove the line.",
        "./x.flags:1: the flagfile 'y.flags' includes itself. Remove the line.",
    ]


def test_a_flagfile_that_is_named_twice_is_none_that_includes_itself():
    write("x.flags", "--flagfile=z.flags\n")
    write("y.flags", "--flagfile=z.flags\n")
    write("z.flags", "b\n")
    assert problems_of("--flagfile=x.flags", "--flagfile=y.flags") == [f"z.flags:1: 'b': {NO_FLAG}"]


def test_a_byte_order_mark():
    write("x.flags", "\ufeff--mode=train\n--seed=3\n")
    assert problems_of("--flagfile=x.flags") == [
        "x.flags:1: the file starts with a byte order mark, which becomes part of the first line. "
        "Save the file as UTF-8 without it."
    ]


@pytest.mark.parametrize(
    ("arguments", "flagfiles", "others"),
    [
        (["--seed=1", "--flagfile=x"], ["--flagfile=x"], ["--seed=1"]),
        (["--seed=1", "-flagfile", "x", "--mode=a", "--flagfile=y"],
         ["--flagfile=x", "--flagfile=y"], ["--seed=1", "--mode=a"]),
        (["--seed=1", "--", "--flagfile=x"], [], ["--seed=1", "--", "--flagfile=x"]),
        (["--seed=1", "--flagfile"], ["--flagfile="], ["--seed=1"]),
    ],
)  # fmt: skip
def test_flagfiles_are_split_off_so_that_the_command_line_wins(arguments, flagfiles, others):
    assert split_flagfiles(arguments) == (flagfiles, others)


def test_the_flagfile_of_the_repository_is_fine():
    root = pathlib.Path(__file__).parents[3]
    check_flagfiles([f"--flagfile={root / 'exp.flags'}"])


def test_a_flag_that_there_is_not_is_named_with_its_place():
    values = flags.FlagValues()
    define_flags(values)
    write("x.flags", "--max_steps=3\n--noshuffle\n--undefok=x\n--max_stepz=3\n--no_shuffle\n")
    with pytest.raises(ConfigError) as error:
        check_flagfiles(["--flagfile=x.flags"], known_names(values))
    assert str(error.value).splitlines() == [
        "x.flags:4: '--max_stepz=3': unknown flag --max_stepz. Did you mean 'max_steps'?",
        "x.flags:5: '--no_shuffle': unknown flag --no_shuffle. Did you mean 'noshuffle'?",
    ]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("serving_port", ". Did you mean --serving_grpc_port or --serving_rest_port?"),
        ("max_stepz", ". Did you mean 'max_steps'?"),
        ("warm_start", ". Did you mean --warm_start_from or --warm_start_mode or "
                       "--warm_start_rename or --warm_start_vars?"),
        ("zzz", ". To set a parameter of the model, write --model_params=zzz=value."),
    ],
)  # fmt: skip
def test_an_unknown_flag_is_told_of_those_with_its_words(name, hint):
    known = {"serving_grpc_port", "serving_rest_port", "serving_host", "max_steps"}
    known |= {f"warm_start_{what}" for what in ("from", "mode", "vars", "rename")}
    assert flagfile.flag_hint(name, known) == hint
