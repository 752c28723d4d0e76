"""The first spec for records, and specs from and to other schemas."""

from __future__ import annotations

from typing import ClassVar, Optional

from estimator_kit.config.settings.base import PositiveInt, Settings, setting
from input_pipelines.prepare import beam_runner


class AnalysisSettings(Settings):
    """The first spec for records, and specs from and to other schemas."""

    heading: ClassVar[str] = "Analysis and schemas"

    analysis_dir: Optional[str] = setting(
        None,
        "The folder for the first spec, its vocabularies and its statistics. Files that "
        "analysis did not write are never overwritten.",
        changes="nothing",
    )
    labels: tuple[str, ...] = setting(
        (),
        "The features to learn. A Schema can name them itself: by the tag label, or because "
        "they are absent in serving.",
        changes="nothing",
    )
    min_count: PositiveInt = setting(
        5,
        "Words that are rarer than this are left out of vocabulary files.",
        changes="values",
        named=True,
    )
    schema_file: Optional[str] = setting(
        None,
        "--mode=import_schema: the TensorFlow Metadata Schema to read, in text format "
        "(schema.pbtxt). --mode=export_schema: the file to write. A file that holds anything "
        "else is never overwritten.",
        changes="nothing",
    )
    beam_options: Optional[str] = setting(
        None,
        "Do the work as an Apache Beam pipeline with these flags of Beam, separated by spaces: "
        "--beam_options='--runner=DataflowRunner --project=ads --region=europe-west1 "
        "--temp_location=gs://ads/temporary'. --runner is required. The output is the same as "
        "without Beam. The workers need estimator-kit, and must reach the files and "
        "--convert_dir by the same paths as this program. Analysis on other machines needs "
        "--temp_location. This flag needs `pip install 'estimator-kit[beam]'`.",
        changes="nothing",
    )

    def beam_flags(self) -> Optional[tuple[str, ...]]:
        """The flags of the Apache Beam pipeline, or None without `--beam_options`."""
        return None if self.beam_options is None else beam_runner.split(self.beam_options)
