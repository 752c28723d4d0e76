"""The pages of the reference that are written from the code, by their place in the site."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping

from estimator_kit import exit_codes
from estimator_kit.config.areas import AREAS, AllSettings
from estimator_kit.config.areas.base import changes_of as of_setting
from estimator_kit.config.areas.program import Program
from estimator_kit.config.modes import (
    MODES,
    PURPOSES,
    modes_that_read,
    settings_of,
)
from estimator_kit.model.model_params import changes_of as of_parameter
from feature_specs import meaning
from feature_specs.heads import HEADS
from feature_specs.kinds import COLUMN_KINDS
from tools.reference import contrib, models, spec
from tools.reference.text import code, default_text, escaped, table, type_text


def flags_page() -> str:
    """All modes with the flags that they read, then all flags."""
    modes = [
        (purpose, f"[{code(mode)}](#mode-{mode})", escaped(entry.help))
        for purpose in PURPOSES
        for mode, entry in MODES.items()
        if entry.purpose == purpose
    ]
    everywhere = [name for name in Program.model_fields if modes_that_read(name) == [*MODES]]
    parts = [
        "# Flags",
        "`python run.py --mode=<mode> --flag=value`. A flag that the mode does not read is an "
        "error. The fields of `estimator_kit.ExperimentConfig` have the same names.",
        "## Modes",
        table(("for", "mode", "what it does"), *modes),
        f"All modes read {', '.join(map(_link, everywhere))}.",
    ]
    for mode in MODES:
        read = settings_of(mode) - {*everywhere}
        rows = [
            (area.heading, [name for name in area.model_fields if name in read]) for area in AREAS
        ]
        lines = [(heading, ", ".join(map(_link, names))) for heading, names in rows if names]
        parts += [f"### --mode={mode} {{ #mode-{mode} }}", table(("area", "flags"), *lines)]
    schema = AllSettings.model_json_schema()["properties"]
    parts.append("## All flags")
    for area in AREAS:
        settings = [
            (
                f'<span id="flag-{name}"></span>{code("--" + name)}',
                type_text(schema[name], {}),
                default_text(field),
                escaped(str(field.description)),
                ", ".join(map(code, modes_that_read(name))),
            )
            for name, field in area.model_fields.items()
        ]
        head = ("flag", "type", "default", "meaning", "modes")
        parts += [f"### {area.heading}", table(head, *settings)]
    return "\n\n".join(parts)


def _link(name: str) -> str:
    return f"[{code('--' + name)}](#flag-{name})"


def exit_statuses_page() -> str:
    """What each exit status of the program means."""
    names = {value: name for name, value in vars(exit_codes).items() if isinstance(value, int)}
    rows = [(code(n), code(names[n]), escaped(text)) for n, text in exit_codes.MEANING.items()]
    return "\n\n".join(
        [
            "# Exit statuses",
            "`estimator_kit.exit_codes` has these names. With `--exit_code_style=kubernetes` the "
            f"program exits with 0 instead of {exit_codes.NOTHING_TO_DO}, so that a Job does not "
            "try again.",
            table(("status", "name", "meaning"), *rows),
        ]
    )


def meaning_page() -> str:
    """What each value changes, and what each artifact compares."""
    defined = inspect.getdoc(meaning) or ""
    lines = defined[defined.index("    records") : defined.index("A declaration names")]
    decide = [line.split(maxsplit=1) for line in lines.strip().splitlines()]
    rows = [
        (c.artifact, ", ".join(c.aspects) or "nothing", c.also, c.otherwise) for c in meaning.ALL
    ]
    return "\n\n".join(
        [
            "# What belongs to what",
            "A later run often reads what an earlier run wrote: a checkpoint, a history, a cache. "
            "What it reads has a meaning that shapes and names do not show: a vocabulary in "
            "another order has the same size. So each setting, each field of a spec and each "
            "parameter of a model declares what it changes, and each reader compares what it "
            "uses, and nothing else.",
            "## Aspects",
            "What a value changes is an arrow of the way of a record:",
            "![The way of a record from a table to a verdict. Each arrow is an aspect.]"
            "(../images/meaning.svg)",
            "With everything to the left of an arrow fixed, an aspect decides:",
            table(("aspect", "decides"), *((code(name), text) for name, text in decide)),
            "## What is compared",
            "All aspects that a row does not name may change. What an earlier version of the kit "
            "did not store contradicts nothing.",
            table(("artifact", "compares", "and", "if they differ"), *rows),
            "## What each value changes",
            'A path, a glob or the name of a class only points at something. It is "named": what '
            "it points at counts, and not how it is spelled. A parameter of your model that "
            "declares nothing counts as `weights`; see `ek.parameter`.",
            table(("value", "changes"), *_declared()),
        ]
    )


def _declared() -> Iterator[tuple[str, str]]:
    for area in AREAS:
        for name in area.model_fields:
            yield code(f"--{name}"), _changes(of_setting(area, name))
    kinds = {f"columns.{kind}": model for kind, model in COLUMN_KINDS.items()}
    heads = {f"objectives.{head}": model for head, model in HEADS.items()}
    for section, model in {**spec.SECTIONS, **kinds, **heads}.items():
        for name, field in model.model_fields.items():
            yield code(f"{section}.{field.alias or name}"), _changes(model.changes_of(name))
    for owner, kind, names in models.parameters():
        for name in names:
            declared = meaning.of_field(kind.model_fields[name])
            changes = meaning.Changes(of_parameter(kind, name), bool(declared and declared.named))
            yield f"`--model_params={name}` of {owner}", _changes(changes)


def _changes(changes: meaning.Changes) -> str:
    text = ", ".join(name for name in meaning.ASPECTS if name in changes.aspects) or "nothing"
    return f"{text} (named)" if changes.named else text


PAGES: Mapping[str, Callable[[], str]] = {
    "reference/spec.md": spec.spec_page,
    "reference/columns.md": spec.columns_page,
    "reference/objectives.md": spec.heads_page,
    "reference/flags.md": flags_page,
    "reference/models.md": models.models_page,
    "reference/model_parameters.md": models.parameters_page,
    "reference/exit_statuses.md": exit_statuses_page,
    "reference/contrib.md": contrib.contrib_page,
    "how_it_works/meaning.md": meaning_page,
}
