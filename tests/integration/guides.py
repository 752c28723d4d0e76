"""The pages in docs/guides: their text, snippets and commands, and a folder to run them in.

The language of a block says what the tests do with it. `sh`: the commands run, page by page, in the
folder that `make_home` makes. `console`: test_guides.py starts the servers and sends the requests.
`yaml`: it must fit the JSON Schema. `python` and `yaml`: a block whose first line is `# NAME.py` or
`# NAME.yaml` is that file. `text`: nothing. Other tests run such commands, for instance
test_data_service.py.
"""

from __future__ import annotations

import pathlib
import re
import shlex
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import tensorflow as tf

from input_pipelines.synthetic import impression_log
from tests import programs
from tests.conftest import ROOT

GUIDES = ROOT / "docs" / "guides"
NAMES = sorted(path.stem for path in GUIDES.glob("*.md"))
SPEC, FLAGS = "data", "training"  # The pages with my_spec.yaml and my.flags.
# A command of that page, which `make_home` runs.
TRAINING = ["estimator-kit", "train_and_evaluate", "--flagfile=my.flags"]
VERSIONS = ("1767225600", "1767312000")  # Of the exports that the pages name.


def text(name: str) -> str:
    return (GUIDES / f"{name}.md").read_text(encoding="utf-8")


def snippets(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text(name), re.M | re.S)


def commands(
    name: str, language: str = "sh", program: str = "estimator-kit|python"
) -> list[list[str]]:
    """The words of the commands of these programs, in the order of a page."""
    joined = re.sub(r" *\\\n *", " ", "".join(snippets(name, language)))
    whole = re.sub(r"(?<=-d )'[^']*'", lambda m: m[0].replace("\n", " "), joined)
    found = re.findall(rf"^(?:{program}) .*$", whole, re.M)
    return [shlex.split(line, comments=True) for line in found]


def run(home: pathlib.Path, command: list[str]) -> programs.Done:
    program, *arguments = command
    start = programs.run if program == "estimator-kit" else programs.run_script
    return start(home, *arguments)


def programs_of_pages() -> dict[str, str]:
    """{file: code} of the Python blocks whose first line is a comment with a file's name."""
    return _files_of_pages("python", "py")


def _files_of_pages(language: str, ending: str) -> dict[str, str]:
    found = (code.partition("\n") for name in NAMES for code in snippets(name, language))
    return {
        first.removeprefix("# "): f"{first}\n{rest}"
        for first, _, rest in found
        if re.fullmatch(rf"# \w+\.{ending}", first)
    }


def make_home(folder: pathlib.Path) -> None:
    """A folder with what the pages name: little data, a table of them, and trained models."""
    impression_log.generate(str(folder / "data" / "ads"), rows=8000)
    write_logs(folder)
    (folder / "my_spec.yaml").write_text(snippets(SPEC, "yaml")[0])
    (folder / "my.flags").write_text(snippets(FLAGS, "flags")[0])
    for name, code in {**programs_of_pages(), **_files_of_pages("yaml", "yaml")}.items():
        (folder / name).write_text(code)
    for name in ("feature_specs", "exp.flags"):
        (folder / name).symlink_to(ROOT / name)
    assert TRAINING in commands("training")
    done = run(folder, TRAINING)
    assert done.returncode == 0, done.stderr
    (mine,) = (folder / "runs/mine/export/final").iterdir()
    for place in ("final", "best"):
        for version in VERSIONS:
            shutil.copytree(mine, folder / "runs/mine/export" / place / version)


def write_logs(folder: pathlib.Path) -> None:
    """Some of the default data as a Parquet file."""
    first = str(next((folder / "data" / "ads" / "dt=2026-01-01").glob("*.tfrecord")))
    rows = []
    for record in tf.data.TFRecordDataset(first).as_numpy_iterator():
        row = {}
        for name, feature in tf.train.Example.FromString(record).features.feature.items():
            values = list(getattr(feature, feature.WhichOneof("kind") or "int64_list").value)
            values = [v.decode() if isinstance(v, bytes) else v for v in values]
            row[name] = values if name == "interests" else values[0]
        rows.append(row)
    (folder / "logs").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), folder / "logs" / "2026-01-01.parquet")
