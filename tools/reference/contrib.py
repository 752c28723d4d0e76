"""The page on `tf.contrib`: each name with whether it works, or what to use instead."""

from __future__ import annotations

import importlib

from tools.reference.text import code, escaped, table


def contrib_page() -> str:
    """A section for each module of tf.contrib that the kit has, then the other modules."""
    from estimator_kit.compat import contrib

    homes = {
        name: importlib.import_module(f"{contrib.__name__}.{name}") for name in contrib.modules()
    }
    parts = [
        "# tf.contrib",
        "TensorFlow 1.15 had these names. A program has them with "
        "`python -m estimator_kit.compat --tf1 PROGRAM.py`, on TensorFlow 2.15 to 2.21; see "
        "[Longevity](../guides/longevity.md). Names that work behave as in TensorFlow 1.15. A "
        "name in a table raises an error with the text in the second column. Any other name is an "
        "ordinary `AttributeError`.",
        table(
            ("module", "names that work", "names with an error"),
            *(
                (f"[{code(name)}](#{name})", str(len(home.__all__)), str(len(_remedies(home))))
                for name, home in homes.items()
            ),
        ),
    ]
    for name, home in homes.items():
        parts += [
            f"## tf.contrib.{name} {{ #{name} }}",
            ", ".join(code(each) for each in sorted(home.__all__)),
        ]
        if remedies := _remedies(home):
            rows = [(code(each), escaped(text)) for each, text in sorted(remedies.items())]
            parts.append(table(("name", "error"), *rows))
    rows = [(code(each), escaped(text)) for each, text in sorted(contrib.FOR_MODULES.items())]
    parts += ["## Other modules", table(("module", "error"), *rows)]
    return "\n\n".join(parts) + "\n"


def _remedies(home: object) -> dict[str, str]:
    return dict(getattr(home, "REMEDIES", {}))
