"""How CSV files are written: flags and the section `tables` of a spec, together."""

from __future__ import annotations

import json

import pytest

import feature_specs
from estimator_kit.commands.convert import run_conversion
from estimator_kit.config import table_settings
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.modes import command_of
from estimator_kit.errors import ConfigError
from feature_specs.errors import SpecError
from input_pipelines.prepare.tables.options import CsvOptions
from tests.conftest import DOCUMENT

pytestmark = pytest.mark.no_tensorflow

CSV = ("a.csv",)
TABLES = {"csv_missing": ["?", "NA"], "csv_skip_spaces": True, "csv_delimiter": ";"}


def spec_of(tables):
    document = {**DOCUMENT, **({} if tables is None else {"tables": tables})}
    return feature_specs.parse(document, source="spec.yaml")


def options(spec, paths=CSV, written=False, **flags):
    config = ExperimentConfig(mode="convert", convert_files=paths, convert_dir="out", **flags)
    return table_settings.csv_options(config, spec, paths, written=written)


def test_the_spec_says_it_and_the_flags_need_not():
    expected = CsvOptions(delimiter=";", skip_spaces=True, missing=("?", "NA"))
    assert options(spec_of(TABLES)) == expected
    # A flag may repeat the spec, in any order.
    assert options(spec_of(TABLES), csv_missing=("NA", "?"), csv_skip_spaces=True) == (
        CsvOptions(delimiter=";", skip_spaces=True, missing=("NA", "?"))
    )
    # How one file is laid out changes no value.
    assert options(spec_of(TABLES), csv_delimiter="|", csv_columns=("x",), csv_comment="#") == (
        CsvOptions(("x",), "|", True, "#", ("?", "NA"))
    )
    assert options(spec_of(TABLES), ("a.parquet",)) == CsvOptions()
    # An older spec may not say whether spaces count. A flag may, but not for new records.
    older = spec_of({"csv_missing": ["?"]})
    assert options(older, csv_skip_spaces=True) == CsvOptions(skip_spaces=True, missing=("?",))
    with pytest.raises(ConfigError, match=r"^--csv_skip_spaces: expected nothing, as in"):
        options(older, written=True, csv_skip_spaces=True)
    assert options(None, csv_missing=("?",)) == CsvOptions(missing=("?",))
    assert options(spec_of(None), csv_missing=("?",)) == CsvOptions(missing=("?",))


@pytest.mark.parametrize(
    "tables, flags, message",
    [
        (TABLES, {"csv_missing": ("?",)},
         '--csv_missing: expected ["?", "NA"], as in the section tables of spec.yaml, got ["?"]. '
         "Remove the flag, or change the spec, convert and train again."),
        (TABLES, {"csv_skip_spaces": False},
         "--csv_skip_spaces: expected true, as in the section tables of spec.yaml, got false. "),
        ({"csv_delimiter": ";"}, {"csv_missing": ("?",)},
         '--csv_missing: expected nothing, as in the section tables of spec.yaml, got ["?"]. '),
        ({"csv_delimiter": ";;"}, {},
         "spec.yaml: tables: --csv_delimiter: got ';;', expected one character, such as ; or \\t"),
    ],
)  # fmt: skip
def test_flags_that_contradict_the_spec(tables, flags, message):
    with pytest.raises(ConfigError) as error:
        options(spec_of(tables), **flags)
    assert str(error.value).startswith(message)


def test_a_complete_section_says_that_nothing_is_missing():
    """As an analysis writes it for an ordinary file."""
    spec = spec_of(CsvOptions(skip_spaces=False).flags)
    assert spec.to_dict()["tables"] == {
        "csv_skip_spaces": False, "csv_missing": [], "csv_list_separator": "",
    }  # fmt: skip
    assert options(spec) == CsvOptions(skip_spaces=False)
    assert options(spec, csv_delimiter=";").delimiter == ";"
    with pytest.raises(ConfigError, match=r"^--csv_missing: expected \[\], as in the section"):
        options(spec, csv_missing=("NA",))
    with pytest.raises(ConfigError, match=r'^--csv_list_separator: expected "", as'):
        options(spec, csv_list_separator="|")


def test_that_spaces_count_says_nothing_of_other_flags():
    """An earlier version wrote it into the first spec of every ordinary file."""
    spec = spec_of({"csv_skip_spaces": False})
    assert options(spec) == CsvOptions(skip_spaces=False)
    assert options(spec, csv_missing=("NA",), csv_skip_spaces=False) == (
        CsvOptions(skip_spaces=False, missing=("NA",))
    )
    with pytest.raises(ConfigError, match=r"^--csv_skip_spaces: expected false, as in the section"):
        options(spec, csv_skip_spaces=True)
    assert options(spec, written=True, csv_skip_spaces=False) == CsvOptions(skip_spaces=False)
    with pytest.raises(ConfigError) as error:
        options(spec, written=True, csv_missing=("?",))
    assert str(error.value).startswith("--csv_missing: these flags change values, so they belong")
    assert str(error.value).endswith(
        "Remove the flags, and write this section in spec.yaml:\ntables:\n"
        '  csv_skip_spaces: false\n  csv_missing: ["?"]'
    )


def test_records_for_a_training_are_read_as_the_spec_says():
    with pytest.raises(ConfigError) as error:
        options(spec_of(None), written=True, csv_missing=("?",), csv_comment="#")
    assert str(error.value) == (
        "--csv_missing, --csv_comment: these flags change values, so they belong in the spec; "
        "predictions of other tables must read fields in the same way. Remove the flags, and add "
        'this to spec.yaml:\ntables:\n  csv_missing: ["?"]\n  csv_comment: "#"'
    )
    assert options(spec_of(None), written=True, csv_delimiter=";") == CsvOptions(delimiter=";")


def test_the_section_is_part_of_the_document():
    spec = spec_of(TABLES)
    assert spec.to_dict()["tables"] == TABLES and "tables" not in spec_of(None).to_dict()
    assert feature_specs.parse(spec.to_dict()).tables == spec.tables
    assert spec.fingerprint() != spec_of(None).fingerprint()
    with pytest.raises(SpecError, match=r"tables.csv_mising: .*Did you mean 'csv_missing'"):
        spec_of({"csv_mising": ["?"]})


def test_a_conversion_takes_them_from_the_spec(tmp_path):
    (tmp_path / "a.csv").write_text("click,price,city\n1,?,rome\n0,2.5,?\n")
    (tmp_path / "spec.json").write_text(json.dumps({
        "features": {"price": {"dtype": "float32", "default": 0},
                     "city": {"dtype": "string", "default": ""}},
        "columns": {"price": {"numeric": "price"}, "city": {"hash_bucket": "city", "size": 9}},
        "groups": {"wide": ["price", "city"]},
        "labels": {"click": {"dtype": "int64"}},
        "objectives": {"click": {"head": "binary"}},
        "tables": {"csv_missing": ["?"]},
    }))  # fmt: skip
    config = ExperimentConfig(
        mode="convert", spec=f"{tmp_path}/spec.json", convert_files=(f"{tmp_path}/a.csv",),
        convert_dir=f"{tmp_path}/out",
    )  # fmt: skip
    run_conversion(command_of(config))
    manifest = json.loads((tmp_path / "out" / "_MANIFEST.json").read_text())
    assert manifest["csv"]["missing"] == ["?"]


def test_a_line_of_names_is_no_row(tmp_path):
    (tmp_path / "a.csv").write_text("click,price\n1,2\n")
    config = ExperimentConfig(
        mode="convert", convert_files=(f"{tmp_path}/a.csv",), convert_dir=f"{tmp_path}/out",
        csv_columns=("click", "price"),
    )  # fmt: skip
    with pytest.raises(
        ValueError, match=r"a.csv: line 1 has the names of the columns\. Remove --csv_c"
    ):
        run_conversion(command_of(config))
