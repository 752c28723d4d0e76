"""The three floors: imports go down, and everything is packaged."""

from __future__ import annotations

import ast
import functools
import re

import pytest

from feature_specs.kinds import COLUMN_KINDS
from tests.conftest import ROOT

pytestmark = pytest.mark.no_tensorflow

FLOORS = ("feature_specs", "input_pipelines", "estimator_kit")
CLIENT = ROOT / "estimator_kit" / "client"
COMPAT = ROOT / "estimator_kit" / "compat"
MODULES = sorted(
    path
    for floor in FLOORS
    for path in (ROOT / floor).rglob("*.py")
    if CLIENT / "build" not in path.parents  # What pip leaves there.
)

# The top-level modules and folders of each package: each imports only modules to its right.
ORDER = {
    "feature_specs": (
        "json_schema", "parser", "validation", "reference", "embeddings", "spec", "kinds", "label",
        "feature", "sections", "heads", "statistics", "entry",
        "meaning", "files", "durations", "errors",
    ),
    "input_pipelines": (
        "data_service", "input_fns", "row_cache", "integrity", "prepare", "reading",
        "record_files", "synthetic", "transform", "eager", "own_code",
        "errors",
    ),
    "estimator_kit": (
        "main", "commands", "monitoring", "retraining", "tuning", "scoring", "serving", "client",
        "distributed",
        "training", "observing", "exporters", "checkpoints", "models", "model", "optimizers",
        "embeddings", "result", "config", "tf_estimator", "compat",
        "tensorflow_errors", "exit_codes", "errors",
    ),
}  # fmt: skip

# Modules that a validation of flags and spec uses.
WITHOUT_TENSORFLOW = {
    "feature_specs": {
        "__init__", "durations", "embeddings/pretrained_files", "embeddings/vector_files", "entry",
        "errors", "feature", "files/*", "json_schema", "kinds/*", "label", "meaning",
        "parser/*", "sections/*", "spec",
        "statistics", "validation/*",
    },
    "input_pipelines": {
        "__init__", "errors", "own_code", "prepare/beam_runner", "prepare/convert/__init__",
        "prepare/convert/options", "prepare/tables/__init__", "prepare/tables/options",
        "reading/files",
    },
    "estimator_kit": {
        "__init__", "commands/__init__", "commands/command_line", "commands/validate",
        "config/cluster", "config/code_digests", "config/experiment_config", "config/flagfile",
        "config/areas/*", "config/flags", "config/modes", "config/rules",
        "distributed/__init__", "distributed/launcher", "errors", "exit_codes",
        "main",
        "observing/__init__", "observing/console", "observing/progress", "result",
        "tuning/__init__", "tuning/definition", "tuning/parameter",
        "tuning/search",
        "tuning/search_file", "tuning/space", "tuning/study",
    },
}  # fmt: skip


@functools.cache
def tree_of(path) -> ast.Module:
    """The syntax tree of a module."""
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path, *, at_import_only: bool = False) -> set[str]:
    """The top-level names that a module imports, also inside functions."""
    tree = tree_of(path)
    found = set()
    for node in tree.body if at_import_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # In their own distributions, the client and compat have other names.
            alone = path.parent == CLIENT or COMPAT in path.parents
            assert alone or not node.level, f"{path}: relative imports hide the floor"
            found.add("." * node.level + str(node.module))
    return found


def module_of(path) -> str:
    """The dotted name of a module, or of a package by its `__init__`."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@functools.cache
def kit_imports(name: str) -> set[str]:
    """The modules of the kit that a module imports, also inside functions."""
    found = set()
    for node in ast.walk(tree_of(NAMES[name])):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            full = [f"{node.module}.{alias.name}" for alias in node.names]
            found.update(each if each in NAMES else str(node.module) for each in full)
    return (found & NAMES.keys()) - {name}


NAMES = {module_of(path): path for path in MODULES}
# estimator_kit/__init__.py names every public name, for type checkers.
IMPORTING = sorted(NAMES.keys() - {FLOORS[-1]})


def room_of(name: str) -> str:
    """The module or folder on the top level of its package that a module belongs to."""
    return name.split(".")[1] if "." in name else ""


@pytest.mark.parametrize("floor", FLOORS)
def test_every_room_has_its_place_in_the_order(floor):
    rooms = {room_of(name) for name in NAMES if name.startswith(f"{floor}.")}
    assert sorted(rooms) == sorted(ORDER[floor])


@pytest.mark.parametrize("name", IMPORTING)
def test_imports_point_downward(name):
    floor = name.split(".")[0]
    for imported in kit_imports(name):
        other = imported.split(".")[0]
        assert FLOORS.index(other) <= FLOORS.index(floor), imported
        if other == floor and "." in imported and "." in name:
            place = ORDER[floor].index(room_of(name))
            assert ORDER[floor].index(room_of(imported)) >= place, imported


def test_there_is_no_import_circle():
    """This includes imports inside functions and imports for type checkers."""
    left = {name: kit_imports(name) & {*IMPORTING} for name in IMPORTING}
    while leaves := [name for name, imported in left.items() if not imported]:
        for leaf in leaves:
            del left[leaf]
        left = {name: imported - set(leaves) for name, imported in left.items()}
    print(f"import circles: {sorted(left) or 'none'}")
    assert not left


@pytest.mark.parametrize("floor", FLOORS)
def test_few_modules_are_on_the_top_level(floor):
    assert len(list((ROOT / floor).glob("*.py"))) <= 10


@pytest.mark.parametrize("path", sorted(CLIENT.glob("*.py")), ids=lambda p: p.name)
def test_clients_import_no_tensorflow_and_nothing_of_the_kit_but_what_reads_yaml(path):
    names = {n.split(".")[0] for n in imports(path)}
    assert names & {*FLOORS} == ({"feature_specs"} if path.name == "rows.py" else set())
    assert not names & {"tensorflow", "tensorflow_serving", "pydantic", "yaml"}


@pytest.mark.parametrize(
    "path",
    [
        path
        for floor, names in WITHOUT_TENSORFLOW.items()
        for name in sorted(names)
        for path in sorted((ROOT / floor).glob(f"{name}.py"))
    ],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_validating_goes_through_no_tensorflow(path):
    names = imports(path, at_import_only=True)
    assert not [n for n in names if n.split(".")[0] in ("tensorflow", "numpy", "google")]


@pytest.mark.parametrize(
    "path", sorted((ROOT / "feature_specs" / "kinds").glob("*.py")), ids=lambda p: p.name
)
def test_column_kinds_know_nothing_of_what_is_made_of_them(path):
    names = [n for n in imports(path) if n.split(".")[0] in (*FLOORS, "tensorflow", "numpy")]
    known = {f"feature_specs.{n}" for n in ("entry", "errors", "feature", "vocabulary")}
    assert not [n for n in names if n not in known and not n.startswith("feature_specs.kinds")]


KINDS = {kind.__name__ for kind in COLUMN_KINDS.values()}

# Functions that only some kinds have.
OF_SOME_KINDS = {
    "feature_specs/embeddings/pretrained_files.py",
    "estimator_kit/checkpoints/warm_start/growing_moves.py",
    "input_pipelines/prepare/metadata_schema/from_spec.py",
}


def test_no_other_module_asks_of_which_kind_a_column_is():
    asking = set()
    for path in MODULES:
        tree = tree_of(path)
        kinds = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
            if alias.name in KINDS
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
                names = {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)}
                if names & (kinds | {"kinds"}):
                    asking.add(str(path.relative_to(ROOT)))
    assert asking == OF_SOME_KINDS


def test_only_the_command_line_knows_absl_and_only_cluster_reads_tf_config():
    absl = {str(p.relative_to(ROOT)) for p in MODULES if any("absl" in n for n in imports(p))}
    assert absl == {
        "estimator_kit/exit_codes.py", "estimator_kit/config/flags.py",
    }  # fmt: skip
    reading = re.compile(r'get\(("TF_CONFIG"|_VARIABLE)')
    readers = {p.name for p in MODULES if reading.search(p.read_text(encoding="utf-8"))}
    assert readers == {"cluster.py"}


def test_tf_estimator_is_reached_in_one_place():
    users = {
        str(path.relative_to(ROOT))
        for path in MODULES
        if COMPAT not in path.parents
        and any(
            isinstance(node, ast.Attribute)
            and node.attr == "estimator"
            and isinstance(node.value, ast.Name)
            and node.value.id == "tf"
            for node in ast.walk(tree_of(path))
        )
    }
    assert users == {"estimator_kit/tf_estimator.py"}


def test_every_folder_of_modules_is_a_package():
    """setuptools leaves a folder without an __init__.py out of the wheel."""
    assert not {path.parent for path in MODULES if not (path.parent / "__init__.py").exists()}
