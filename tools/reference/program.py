"""The pages of the program: flags by mode, exit statuses, and the files that a run leaves."""

from __future__ import annotations

from collections.abc import Iterator

from estimator_kit import exit_codes
from estimator_kit.config.modes import EVERY_MODE_READS, MODES, PURPOSES
from estimator_kit.config.settings import AREAS, AllSettings, modes_that_read, settings_of
from estimator_kit.observing import model_dir_files
from tools.reference.docstrings import code, escaped, table
from tools.reference.schema_types import type_text
from tools.reference.source import yaml_text


def flags_page() -> str:
    """All modes with the flags that they read, then all flags."""
    parts = [
        "# Flags",
        "`python run.py --mode=<mode> --flag=value`. A flag that the mode does not read is an "
        "error. The fields of `estimator_kit.ExperimentConfig` have the same names.",
        "## Modes",
        table(
            ("for", "mode", "what it does"),
            [
                (purpose, f"[{code(mode)}](#mode-{mode})", escaped(entry.help))
                for purpose in PURPOSES
                for mode, entry in MODES.items()
                if entry.purpose == purpose
            ],
        ),
        "All modes read " + ", ".join(_link(name) for name in EVERY_MODE_READS) + ".",
        *_modes(),
        "## All flags",
        *_areas(),
    ]
    return "\n\n".join(parts)


def _modes() -> Iterator[str]:
    for mode, entry in MODES.items():
        names = settings_of(mode)
        yield f"### --mode={mode} {{ #mode-{mode} }}"
        yield _sentence(entry.help)
        if names == frozenset(AllSettings.model_fields):
            yield "It reads all flags."
            continue
        rows = []
        for area in AREAS:
            read = [n for n in area.model_fields if n in names and n not in EVERY_MODE_READS]
            if read:
                rows.append((area.heading, ", ".join(map(_link, read))))
        yield table(("area", "flags"), rows)


def _areas() -> Iterator[str]:
    schema = AllSettings.model_json_schema()["properties"]
    for area in AREAS:
        yield f"### {area.heading}"
        rows = []
        for name, field in area.model_fields.items():
            modes = modes_that_read(name)
            default = field.get_default()
            rows.append(
                (
                    f'<span id="flag-{name}"></span>{code("--" + name)}',
                    type_text(schema[name], {}),
                    "none" if default in (None, (), {}, "") else code(yaml_text(default)),
                    escaped(str(field.description)),
                    "all modes" if len(modes) == len(MODES) else ", ".join(map(code, modes)),
                )
            )
        yield table(("flag", "type", "default", "meaning", "modes"), rows)


def _link(name: str) -> str:
    return f"[{code('--' + name)}](#flag-{name})"


def _sentence(text: str) -> str:
    return escaped(text[:1].upper() + text[1:].rstrip(".") + ".")


def exit_statuses_page() -> str:
    """What each exit status of the program means."""
    names = {
        value: name
        for name, value in vars(exit_codes).items()
        if isinstance(value, int) and name.isupper()
    }
    rows = [
        (code(status), code(names[status]), escaped(text))
        for status, text in exit_codes.MEANING.items()
    ]
    return "\n\n".join(
        [
            "# Exit statuses",
            "`estimator_kit.exit_codes` has these names. With "
            "`--exit_code_style=kubernetes` the program exits with 0 instead of "
            f"{exit_codes.NOTHING_TO_DO}, so that a Job does not try again.",
            table(("status", "name", "meaning"), rows),
        ]
    )


def files_page() -> str:
    """The files in a model directory and in an export."""
    return "\n\n".join(
        [
            "# Files",
            "`<x>` stands for one name, and `**` for everything below. A file is there only if the "
            "run had a reason to write it.",
            "## In a model directory",
            _files(model_dir_files.MODEL_DIR),
            "## In an export",
            _files(model_dir_files.EXPORT),
        ]
    )


def _files(files: model_dir_files.Mapping[str, str]) -> str:
    return table(("file", "what it is"), [(code(p), escaped(text)) for p, text in files.items()])
