"""A first spec for some records, and specs from and to other schemas."""

from __future__ import annotations

from typing import ClassVar, Optional

from estimator_kit.config.settings.base import PositiveInt, Settings, setting
from input_pipelines.prepare.beam import flags


class AnalysisSettings(Settings):
    """A first spec for some records, and specs from and to other schemas."""

    heading: ClassVar[str] = "Analysis and schemas"

    analysis_dir: Optional[str] = setting(
        None,
        "With --mode=analyze and --mode=import_schema: the folder for the first spec, its "
        "vocabularies and statistics. What it holds that analysis did not write is never "
        "overwritten.",
    )
    labels: tuple[str, ...] = setting(
        (),
        "With --mode=analyze and --mode=import_schema: the features that are to be learned. A "
        "Schema may say them itself: by the tag label, or by not being there in serving.",
    )
    min_count: PositiveInt = setting(
        5,
        "With --mode=analyze: rarer words are in no vocabulary file.",
    )
    schema_file: Optional[str] = setting(
        None,
        "With --mode=import_schema: the Schema of TensorFlow Metadata to read, in text format "
        "(schema.pbtxt). With --mode=export_schema: the file to write; another one that is "
        "there is never overwritten.",
    )
    beam_options: Optional[str] = setting(
        None,
        "With --mode=convert and --mode=analyze: do the work as an Apache Beam pipeline with "
        "these flags of Beam, separated by blanks: --beam_options='--runner=DataflowRunner "
        "--project=ads --region=europe-west1 --temp_location=gs://ads/temporary'. --runner has "
        "to be there. What is written is the same as without. The workers need estimator-kit, "
        "and the same paths of files and --convert_dir as this program; analysis on other "
        "machines needs a --temp_location. Needs estimator-kit[beam].",
    )

    def beam_flags(self) -> Optional[tuple[str, ...]]:
        """The flags of an Apache Beam pipeline, or None where none is asked for."""
        return None if self.beam_options is None else flags.split(self.beam_options)
