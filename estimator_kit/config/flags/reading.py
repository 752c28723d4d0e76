"""The flags of which records are read, and how."""

from __future__ import annotations

from estimator_kit.config.experiment_config import CORRUPT_DATA_POLICIES
from estimator_kit.config.flags.definer import Definer


def define_flags(define: Definer) -> None:
    define.listing(
        "train_files",
        "TFRecord files to train on: paths or globs, separated by commas. With --mode=analyze they "
        "may be of another kind, see there.",
    )
    define.listing(
        "eval_files",
        "TFRecord files to evaluate on, all of them at each evaluation.",
    )
    define.listing(
        "predict_files",
        "TFRecord files to predict; labels need not be in them. With --predict_dir they may be of "
        "another kind, see there.",
    )
    define.text(
        "train_days",
        "Days to train on: 2026-01-01..2026-01-07, 7d..2026-01-07 (the seven that end with it) or "
        "2026-01-07. Each takes the place of dt=* in --train_files (data/dt=*/*.tfrecord). A day "
        "without a file is an error.",
    )
    define.text(
        "eval_days",
        "The same for --eval_files, as in --eval_days=2026-01-08.",
    )
    define.listing(
        "train_mix",
        "In the place of --train_files: several patterns and the share of each, as in "
        "a/*.tfrecord=3,b/*.tfrecord=1: of four rows three are of a, in every batch, however many "
        "rows there are of either. A part that ends begins again; an epoch is as many rows as all "
        "parts have together.",
    )
    define.text(
        "keep_negatives",
        "Train on this share of the rows whose label is 0, as 0.1, or click=0.1 where several "
        "objectives are binary; another part of them in each epoch, the same at each reading. "
        "Those kept weigh 1 / share, in the losses of all objectives, so predictions stay "
        "calibrated. Evaluation reads all rows.",
    )
    define.integer(
        "batch_size",
        "Rows a training step.",
    )
    define.integer(
        "eval_batch_size",
        "Rows a step of evaluation and prediction.",
    )
    define.switch(
        "shuffle",
        "Shuffle the training rows.",
    )
    define.text(
        "input_cache_dir",
        "Keep transformed rows in this folder, on a local disk, for later epochs and later runs: "
        "training and evaluation read them instead of parsing their files anew. A file, a spec, a "
        "vocabulary or a version that changed is transformed again. Several runs may use one "
        "folder. The first run is slower by the writing.",
    )
    define.number(
        "input_cache_gib",
        "GiB that --input_cache_dir may hold, 20 without this flag; the files used longest ago are "
        "removed for room.",
    )
    define.choice(
        "corrupt_data_policy",
        CORRUPT_DATA_POLICIES,
        "What to do about files that are damaged and records that the spec cannot use. fail: stop, "
        "and name file, byte and reason. skip_record: read the good records alone. quarantine: "
        "leave out each file with a bad record, and list it. The last two read all files once "
        "before anything else; counts are in result.json, the files in model_dir/bad_data.json.",
    )
    define.integer(
        "max_bad_records",
        "With --corrupt_data_policy=skip_record or quarantine: more bad records than this, in the "
        "files of one flag, stop the run (exit status 65) before it begins.",
    )
    define.number(
        "max_bad_fraction",
        "The same for the share of records, or of bytes where that is larger, that is left out of "
        "the files of one flag: 0.01 is one in a hundred.",
    )
    define.text(
        "data_service",
        "grpc://host:port of the dispatcher of a tf.data service. Its workers then read, shuffle, "
        "parse and transform the training rows, on other machines, which have to reach the files "
        "under the same names. Each row is read once an epoch, in no fixed order; a worker that is "
        "lost takes the rows along that it had in hand. With --mode=data_service_worker: the "
        "dispatcher that the worker belongs to.",
    )
    define.integer(
        "data_service_port",
        "With --mode=data_service_dispatcher or data_service_worker: the port to listen at; 0 "
        "takes a free one. The line that is printed says which.",
    )
    define.text(
        "data_service_host",
        "With these modes: the name under which others reach this machine; its host name when not "
        "given (localhost for a worker whose dispatcher is there).",
    )
    define.text(
        "data_service_dir",
        "With --mode=data_service_dispatcher: a folder for what it knows. Started again with the "
        "same one it goes on with its trainings, at the same port.",
    )
    define.number(
        "data_service_timeout_secs",
        "With --data_service: seconds to wait for the dispatcher and a first worker; for rows that "
        "are missing at the end, before they are taken for lost with a worker; and a third of "
        "those that a step may take.",
    )
