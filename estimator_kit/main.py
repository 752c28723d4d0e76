"""The program: command line in, exit status out. `run.py` and `estimator-kit` call `program`.

Errors that a user can act on are printed as they are; only a bug shows a traceback. TensorFlow is
imported after the flags were found to be right, and not at all by `--mode=validate`.
"""

from __future__ import annotations

import logging
import os
import select
import sys
import traceback
from collections.abc import Iterable, Sequence
from typing import NoReturn, Optional

from absl import flags

from estimator_kit import exit_codes
from estimator_kit.commands import validate, validate_pretrained
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.flagfile import check_flagfiles, flag_hint, flagfiles_first
from estimator_kit.config.flags import config_from_flags, define_flags, known_names
from estimator_kit.config.modes import RETRAINING_MODES, SERVICE_MODES
from estimator_kit.errors import ConfigError, NothingToDo, Refused
from feature_specs.parser import parser

# Names that the report of a spec lists of each kind.
_NAMED = 12

_HELP = """\
Trains, evaluates, exports and queries a TensorFlow Estimator from a declarative feature spec.

  python run.py --flagfile=exp.flags                        train, evaluate, export
  python run.py --flagfile=exp.flags --max_steps=500        a flag after the file overrides it
  python run.py --flagfile=exp.flags --mode=validate        check flags and spec, run nothing
  python run.py --mode=analyze --train_files=data/* --labels=click --analysis_dir=analysis
                                                            write a first spec for some records;
                                                            CSV, JSON lines and Parquet, too
  python run.py --mode=check_data --train_files=data/*      read all records, list what is damaged
  python run.py --mode=convert --convert_files='logs/*.parquet' --convert_dir=data
                                                            write tables as sharded TFRecords
  python run.py --mode=inspect --inspect_path=runs/mine/export/final/1767225600
                                                            what is in an export, checkpoint or
                                                            model directory
  python run.py --mode=predict --export_dir=runs/mine/export/final/1767225600 \\
      --predict_files='logs/*.parquet' --predict_dir=scored --keep_columns=user_id
                                                            predictions of many files, by an export
  python run.py --flagfile=retrain.flags --mode=retrain     one cycle of scheduled retraining
  python run.py --mode=history --model_dir=runs/ads         the table of its cycles
  python run.py --mode=rollback --model_dir=runs/ads --to=12
                                                            makes an older version live again
  python run.py --mode=data_service_dispatcher --data_service_port=5000
  python run.py --mode=data_service_worker --data_service=grpc://host:5000
                                                            servers that read for a training with
                                                            --data_service=grpc://host:5000
  python run.py --mode=serve --serving_models=ads=runs/ads/export/best
                                                            answer TensorFlow Serving's gRPC and
                                                            REST requests, for development;
                                                            production belongs to TensorFlow
                                                            Serving, for which
  python run.py --mode=serving_config --serving_models=ads=runs/ads/export/best \\
      --serving_config_dir=out
                                                            writes the files

A flagfile holds one --flag=value a line; lines that start with # are comments. Exit status:
"""


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs one command line, `sys.argv` by default, and returns the exit status.

    Where nobody reads standard output any more, as behind `| head`, it ends without a word.
    """
    try:
        code = _main(list(sys.argv if arguments is None else arguments))
        sys.stdout.flush()
        return code
    except BrokenPipeError as error:
        if not _reader_is_gone():
            return _report(error)
        # What Python still holds for it must not fail at the end of the process.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exit_codes.DONE


def _reader_is_gone() -> bool:
    """Whether the other end of standard output, a pipe, is closed."""
    try:
        watch = select.poll()
        watch.register(sys.stdout.fileno(), select.POLLOUT)
        return any(event & select.POLLERR for _, event in watch.poll(0))
    except (OSError, ValueError, AttributeError):  # It is no file.
        return False


def _main(arguments: list[str]) -> int:
    values = flags.FlagValues()
    define_flags(values)
    style = "kit"
    try:
        if {"--help", "-help", "-h", "--h", "--helpfull"}.intersection(arguments[1:]):
            print(help_text(values))
            return exit_codes.DONE
        check_flagfiles(arguments[1:], known_names(values))
        try:
            rest = values([arguments[0], *flagfiles_first(arguments[1:])])[1:]
        except flags.UnrecognizedFlagError as error:
            name = error.flagname
            raise ConfigError(
                f"there is no flag --{name}{flag_hint(name, known_names(values))}"
            ) from error
        if rest:
            raise flags.Error(f"{rest[0]!r} is no flag; every argument is --flag=value")
        config = config_from_flags(values)
        style = config.exit_code_style
        return _run(config, arguments[1:])
    except BrokenPipeError:
        raise
    except Exception as error:  # The one place that turns errors into exit statuses.
        return exit_codes.styled(_report(error), style)
    except KeyboardInterrupt:
        print(exit_codes.MEANING[exit_codes.INTERRUPTED], file=sys.stderr)
        return exit_codes.INTERRUPTED


def program() -> NoReturn:
    """Runs `main` as a process, and ends it."""
    code = main()
    servers = sys.modules.get("estimator_kit.distributed.servers")
    if servers is not None and servers.STARTED:
        # A server of TensorFlow's cannot be stopped. Where Python takes down what its threads use,
        # some abort the process, and the exit status would be that of a signal.
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def help_text(values: flags.FlagValues) -> str:
    """The program's help: use, exit statuses, every flag."""
    codes = "\n".join(f"  {code:>3}  {text}" for code, text in exit_codes.MEANING.items())
    return f"{_HELP}{codes}\n\nFlags:\n{values.module_help('estimator_kit')}"


def _run(config: ExperimentConfig, arguments: Sequence[str]) -> int:
    if config.mode == "validate":
        print(validation_report(config))
        if config.validate_rows or config.has_baseline:
            _quiet_tensorflow()
            from estimator_kit.commands import validate_data

            for found in validate_data.reports(config):
                print(found)
        return exit_codes.DONE
    if config.launch_local:
        from estimator_kit.distributed import launcher

        return launcher.launch(config, arguments)
    # What a server says is read later than it was said.
    _quiet_tensorflow("%(asctime)s %(message)s" if config.mode == "serve" else "%(message)s")
    if config.mode == "convert":
        from estimator_kit.commands import convert

        print(convert.run_conversion(config))
        return exit_codes.DONE
    if config.mode == "analyze":
        from estimator_kit.commands import analyze

        print(analyze.run_analysis(config))
        return exit_codes.DONE
    if config.mode == "check_data":
        from estimator_kit.commands import check_data

        print(check_data.run_check(config)[1])
        return exit_codes.DONE
    if config.mode == "inspect":
        import estimator_kit.compat  # isort: skip  # before TensorFlow: which Keras
        from estimator_kit.commands import inspect

        print(inspect.inspect(config))
        return exit_codes.DONE
    if config.mode == "transform":
        import estimator_kit.compat  # isort: skip  # before TensorFlow: which Keras
        from estimator_kit.commands import transform

        print(transform.transform(config))
        return exit_codes.DONE
    if config.mode in SERVICE_MODES:
        from estimator_kit.commands import data_service

        data_service.serve(config)
        return exit_codes.DONE
    if config.mode == "serve":
        from estimator_kit.serving import server

        server.serve(config)
        return exit_codes.DONE
    if config.mode == "serving_config":
        from estimator_kit.serving import config_files

        print(config_files.write(config))
        return exit_codes.DONE
    if config.mode in ("import_schema", "export_schema"):
        from estimator_kit.commands import schema

        print(schema.exchange(config))
        return exit_codes.DONE
    import estimator_kit.compat  # noqa: F401  # isort: skip  # before TensorFlow: which Keras

    if config.mode in RETRAINING_MODES:
        from estimator_kit.commands import retrain

        print(retrain.run(config)[1])
        return exit_codes.DONE
    if config.mode == "predict" and config.predict_dir is not None:
        from estimator_kit.scoring import scoring

        print(scoring.run(config)[1])
        return exit_codes.DONE
    from estimator_kit.commands import experiment
    from estimator_kit.observing import report

    result = experiment.run(config)
    # Predictions may be on standard output, so what is for people goes beside them.
    stream = sys.stderr if config.mode == "predict" else sys.stdout
    print(report.summary(config, parser.load(config.spec), result), file=stream)
    return exit_codes.DONE


def validation_report(config: ExperimentConfig) -> str:
    """Reads the spec and says what is in it; raises SpecError when it cannot be used.

    So that it does not say that what a training refuses is right, it looks at pretrained vectors.
    """
    spec = parser.load(config.spec)
    lines = [f"{config.spec}: the spec and the flags are right, as far as the lines below go"]
    for what in ("features", "columns", "labels", "objectives"):
        names = getattr(spec, what)
        lines.append(f"  {len(names):>3} {what}: {_some(names)}")
    for group, columns in spec.groups.items():
        lines.append(f"  group {group}, {len(columns)} columns: {_some(columns)}")
    lines += validate_pretrained.report(config, spec)
    lines += validate.report(config, spec)
    if config.validate_rows or config.has_baseline:
        lines.append("  data: what was found comes below")
    else:
        lines.append("  data: not read; --validate_rows=1000 compares rows with the spec")
    if spec.drift.any and not config.has_baseline:
        lines.append(
            "  drift: its thresholds were looked at alone; --baseline_files or "
            "--baseline_statistics says what records are held against"
        )
    return "\n".join(lines)


def _some(names: Iterable[str]) -> str:
    """Names, the first of them where they are many."""
    every = list(names)
    more = f", and {len(every) - _NAMED} more" if len(every) > _NAMED else ""
    return ", ".join(every[:_NAMED]) + more


def _report(error: Exception) -> int:
    code = exit_codes.exit_code(error)
    if code == exit_codes.BUG:
        traceback.print_exception(type(error), error, error.__traceback__)
    else:
        kind = "nothing to do" if isinstance(error, NothingToDo) else "error"
        kind = "refused" if isinstance(error, Refused) else kind
        print(f"{kind}: {_words(error)}", file=sys.stderr)
    return code


def _words(error: Exception) -> str:
    """What an error says; one of TensorFlow's without the nodes and stacks around it."""
    if not hasattr(error, "node_def"):
        return str(error)
    from input_pipelines.record_files import tfrecords

    return tfrecords.first_line(error)


def _quiet_tensorflow(form: str = "%(message)s") -> None:
    """Leaves TensorFlow's warnings and errors, less its notes and the deprecations.

    Deprecated, for TensorFlow, is everything that an Estimator is made of.
    """
    # What C++ logs as an error and matters comes as an exception, too.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    logging.basicConfig(format=form, level=logging.WARNING)
    logging.getLogger("estimator_kit").setLevel(logging.INFO)
    logger = logging.getLogger("tensorflow")
    logger.setLevel(logging.WARNING)
    logger.addFilter(lambda record: "deprecat" not in record.getMessage().lower())
