"""Settings that name tables: the run reads the records that a conversion makes of them.

    with in_tables.converted(config) as config:     # No setting names a table any more.
        ...

The conversion is the one of `--mode=convert --spec=...` with its default options, so training and
evaluation read the same bytes, whoever has made them. The records are in a separate folder,
`~/.cache/estimator_kit/records/<digest>`. The digest is of the tables with their sizes and times,
of what in the spec changes records, and of the code. So unchanged tables are converted once. The
files of a folder always have the same bytes and times, also after it was removed and made again.
For the limit of all folders, see `feature_specs.files.caches`.

A row that cannot be used is an error before anything else begins, whatever --corrupt_data_policy
says. Only one process can read tables: tasks of a cluster and workers of a data service may be on
machines that do not see these folders. Imports TensorFlow only in modes that need it.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import importlib
import json
import logging
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Optional

from estimator_kit.config import table_settings
from estimator_kit.config.areas.conversion import Conversion
from estimator_kit.config.areas.data import TEST
from estimator_kit.config.areas.program import TRAINING_MODES, Program
from estimator_kit.config.areas.reading import OFF
from estimator_kit.config.areas.tables import Tables
from estimator_kit.config.cluster import view_of
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.modes import settings_of
from estimator_kit.errors import ConfigError
from feature_specs.errors import counted
from feature_specs.files import caches, file_systems, urls
from feature_specs.parser import parser
from feature_specs.spec import FeatureSpec
from input_pipelines import own_code
from input_pipelines.errors import DataError
from input_pipelines.reading import files
from input_pipelines.record_files import kinds

_log = logging.getLogger("estimator_kit")

# The settings that may name tables, by mode.
_FIELDS = {
    **dict.fromkeys((*TRAINING_MODES, "evaluate"), ("train_files", "eval_files")),
    "tune": ("train_files", "eval_files", "test_files"),
    "export": ("eval_files",),  # It reads no others.
}

# How the names of the shards of a conversion without a split begin.
_SHARDS = "data-*"

# The most names of columns in a line of the log.
_SHOWN = 10


class _Set(NamedTuple):
    """The files of one set.

    Attributes:
      field: the setting.
      name: the name of an evaluation set; None without one.
      flag: what messages call it.
      patterns: its patterns, one for each day.
      tables: the paths of its tables; none if it has records.
    """

    field: str
    name: Optional[str]
    flag: str
    patterns: tuple[str, ...]
    tables: tuple[str, ...]

    @property
    def kind(self) -> str:
        return kinds.kind_of(self.tables[0])


@contextlib.contextmanager
def converted(config: ExperimentConfig) -> Iterator[ExperimentConfig]:
    """A config whose settings name TFRecord files. Without tables, it is the same one.

    Raises:
      ConfigError: the run cannot read tables, a set shares a table with another set that must not
        have it, or the records do not fit on the disk.
      DataError: a table cannot be read or does not fit the spec, or a row cannot be used.
      SpecError: the spec cannot be used.
    """
    read = settings_of(config.mode)
    fields = [field for field in _FIELDS.get(config.mode, ()) if field in read]
    sets = [each for field in fields for each in _sets(config, field)]
    of_tables = [each for each in sets if each.tables]
    if not of_tables:
        yield config
        return
    _check_alone(config, of_tables[0])
    _check_apart(of_tables)
    together = list(_trained_at_last(config, sets))
    spec = _spec_of(config)
    root = _root_of(config)
    with contextlib.ExitStack() as stack:
        shards: dict[tuple[str, Optional[str]], str] = {}
        for each in of_tables:
            folder = stack.enter_context(_records_of(each, config, spec, root))
            shards[each.field, each.name] = os.path.join(folder, _SHARDS)
        for each in together:
            stack.enter_context(_records_of(each, config, spec, root))
        changes: dict[str, Any] = {}
        for field in dict.fromkeys(each.field for each in of_tables):
            changes[field] = tuple(
                entry
                for each in sets
                if each.field == field
                for entry in _entries(each, shards.get((field, each.name)))
            )
            if field != "test_files":
                changes[field.replace("_files", "_days")] = None  # The entries have the days.
        yield config.model_copy(update=changes)


def _sets(config: ExperimentConfig, field: str) -> Iterator[_Set]:
    """The sets of a setting, with their tables.

    Raises:
      DataError: a set has files of several kinds, or a day of a table is missing.
    """
    which = field.partition("_")[0]
    days = () if which == "test" else config.days_of(which)
    named = config.sets if which == "eval" else {None: getattr(config, field)}
    for name, given in named.items():
        patterns = given if which == "test" else config.of_days(given, which)
        flag = f"--{field}" if name is None else f"--{field}, set {name}"
        yield _Set(field, name, flag, tuple(patterns), _tables(given, patterns, days, flag))


def _tables(
    given: Sequence[str], patterns: Sequence[str], days: Sequence[str], flag: str
) -> tuple[str, ...]:
    """The tables among the files of patterns, in the order of their rows; none for records.

    Other modules refuse a pattern that matches nothing, after default data were written.
    """
    if any(file_systems.scheme_of(pattern) for pattern in patterns):
        return ()
    if not any(_is_table(path) for pattern in patterns for path in files.glob(pattern)):
        return ()
    paths = files.expand(given, flag=flag, days=days)
    kinds.kind_of_all(paths)
    return tuple(file_systems.canonical_of(paths).values())


def _is_table(path: str) -> bool:
    """Whether a file is a table by its name, and has no record at its start."""
    if kinds.kind_of(path) == kinds.TFRECORD:
        return False
    framing: Any = importlib.import_module("input_pipelines.record_files.framing")
    opened: Any = gzip.open if path.lower().endswith(".gz") else open
    with contextlib.suppress(OSError, EOFError), opened(path, "rb") as file:
        return framing.length_of(file.read(framing.HEADER)) is None
    return True  # The conversion says what is wrong.


def _check_alone(config: ExperimentConfig, found: _Set) -> None:
    """Raises ConfigError if other machines would have to read the records."""
    what = None
    if config.data_service is not None:
        what = "workers of a data service"
    elif config.mode in TRAINING_MODES and view_of(config, os.environ) is not None:
        what = "tasks of a cluster"
    if what is not None:
        raise ConfigError(
            f"{found.flag}: {found.tables[0]} is a {found.kind} file, and {what} read TFRecord "
            f"files. Convert it first: estimator-kit convert --spec={config.spec} "
            f"--convert_files='{','.join(found.patterns)}' --convert_dir=<a new folder>"
        )


def _check_apart(sets: Sequence[_Set]) -> None:
    """As training and a search do with files: their records would have other names.

    Raises:
      ConfigError: a table is trained on and evaluated, or one of the tests chooses the model.
    """
    plan: Any = importlib.import_module("estimator_kit.training.plan")
    eval_input: Any = importlib.import_module("estimator_kit.training.eval_input")
    of_field = {f: [each for each in sets if each.field == f] for f in {s.field for s in sets}}
    evaluated = of_field.get("eval_files", [])
    tests = of_field.get("test_files", [])
    for train in of_field.get("train_files", []):
        for other in [*evaluated, *tests]:
            plan.check_apart(list(train.tables), list(other.tables), other.flag)
    if len(evaluated) > 1:
        judging = evaluated[0].tables if evaluated[0].name != TEST else ()
        for test in (each for each in evaluated[1:] if each.name == TEST):
            eval_input.check_test(test.tables, judging)
    for test in tests:
        for other in evaluated:
            shared = files.shared(test.tables, other.tables)
            if shared:
                raise ConfigError(
                    f"{other.flag} and --test_files share {shared[0]}. Score the best trial on "
                    "files that the search has not seen."
                )


def _trained_at_last(config: ExperimentConfig, sets: Sequence[_Set]) -> Iterator[_Set]:
    """The tables on which a search with test files trains its best settings, as one set.

    They are converted before the first trial, so that they cannot end the search after the last
    one: two files may fit the spec, and not each other.

    Raises:
      DataError: the files are not of one kind.
    """
    has_test = bool(config.test_files) or TEST in config.sets
    if config.mode != "tune" or not has_test or config.train_mix:
        return
    learned = [each for each in sets if each.field == "train_files"]
    learned += [each for each in sets if each.field == "eval_files"][:1]  # The set that judges.
    if not any(each.tables for each in learned):
        return
    patterns = tuple(pattern for each in learned for pattern in each.patterns)
    flag = " and ".join(each.flag for each in learned)
    try:
        tables = _tables(patterns, patterns, (), flag)
    except DataError as error:
        raise DataError(
            f"{flag}: a search with test files trains its best settings on all of them: {error}"
        ) from error
    yield _Set("train_files", None, flag, patterns, tables)


def _spec_of(config: ExperimentConfig) -> FeatureSpec:
    if config.spec:
        return parser.load(config.spec)
    exports: Any = importlib.import_module("estimator_kit.scoring.export")
    assert config.export_dir is not None, "the rules require it"
    export = exports.read(exports.newest(config.export_dir), "")
    spec: FeatureSpec = exports.spec_of(export, "how rows of a table become records")
    return spec


def _root_of(config: ExperimentConfig) -> str:
    """The folder with the folders of records."""
    if config.named_cache is not None:
        return os.path.join(os.path.abspath(config.named_cache), "records")
    return os.path.abspath(file_systems.user_cache("records"))


@contextlib.contextmanager
def _records_of(
    each: _Set, config: ExperimentConfig, spec: FeatureSpec, root: str
) -> Iterator[str]:
    """The folder with the records of a set, which stays until the end of the block."""
    problem = None
    try:
        os.makedirs(root, mode=0o700, exist_ok=True)  # The rows may be private.
    except OSError as error:
        problem = f"made: {error.strerror}"
    if problem is None and not os.access(root, os.W_OK):
        problem = "written: it is read-only"
    if problem is not None:
        raise ConfigError(
            f"{each.flag}: {root}, the folder for the records of tables, cannot be {problem}. Name "
            "another one with --input_cache_dir, or use --mode=convert"
        )
    digest = _digest(each, spec)
    what = f"{counted(len(each.tables), 'file')} of {each.kind}"
    try:
        with caches.used(root, digest, lambda folder: _convert(each, config, spec, folder)) as made:
            _log.info("%s: the records of %s are in %s", each.flag, what, made)
            urls.stand_for(os.path.join(made, _SHARDS), each.patterns)
            yield made
    finally:
        if config.input_cache_dir == OFF:
            caches.remove(root, digest)


def _digest(each: _Set, spec: FeatureSpec) -> str:
    """A digest of what decides the bytes of the records, and of the times of the tables."""
    plans: Any = importlib.import_module("input_pipelines.prepare.convert.plan")
    csv = table_settings.csv_options(Tables(), spec, each.tables, written=True)
    facts = [
        [[path, *file_systems.stamp(path)] for path in each.tables],
        spec.fingerprint(*plans.READ),
        csv.document(),
        own_code.of_reading(),
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


def _convert(each: _Set, config: ExperimentConfig, spec: FeatureSpec, folder: str) -> None:
    """Converts a set into a folder, or goes on with it."""
    convert: Any = importlib.import_module("estimator_kit.commands.convert")
    _log.info(
        "%s: converting %s into %s. Later runs find the records there while the tables and the "
        "spec stay as they are; --mode=convert writes them to a folder that you keep",
        each.flag,
        counted(len(each.tables), "file"),
        folder,
    )
    newest = max(file_systems.stamp(path)[1] for path in each.tables)
    result = convert.written(
        Conversion(convert_dir=folder),
        Program(log_every_secs=config.log_every_secs),
        Tables(),
        config.seed,
        each.tables,
        spec,
        on_plan=lambda plan: _before(plan, each, config, folder),
    )
    for note in result.notes:
        _log.info("%s: %s", each.flag, note)
    for name in result.shards:
        os.utime(os.path.join(folder, name), ns=(newest, newest))


def _before(plan: Any, each: _Set, config: ExperimentConfig, folder: str) -> None:
    """Says which columns are not read. Raises ConfigError if the disk is too small."""
    names, size = plan.table.left_out, int(plan.size)
    if names:
        more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
        shown = ", ".join(names[:_SHOWN])
        _log.info("%s: left out, as the spec does not name them: %s%s", each.flag, shown, more)
    root, name = os.path.split(folder)
    gib = config.input_cache_gib
    room = caches.make_room(root, name, size, limit=None if gib is None else int(gib * 2**30))
    if room < size:
        raise ConfigError(
            f"the records of the tables need about {size / 2**20:,.1f} MiB, and the disk of {root} "
            f"has room for {room / 2**20:,.1f} MiB. Free some space, or choose a folder on a "
            "larger disk with --input_cache_dir, or with --mode=convert"
        )


def _entries(each: _Set, shards: Optional[str]) -> tuple[str, ...]:
    """The entries of a setting for a set: its records, or the patterns of its files."""
    start = "" if each.name is None else f"{each.name}="
    return tuple(start + pattern for pattern in ([shards] if shards else each.patterns))
