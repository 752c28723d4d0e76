"""The text of `exp.flags`: the flags of a first training, each with its reason as a comment.

Only makes text. `first_settings` chooses the values, and `folder` writes the file.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from input_pipelines.prepare.analyze.first_settings import Setting

FILE = "exp.flags"

_WIDTH = 98

_NO_EVALUATION = (
    "Give files that training does not read, to see how good the model is. Then use "
    "train_and_evaluate in place of train:"
)


def text(settings: Sequence[Setting], *, command: str, evaluated: bool) -> str:
    """The text of the file.

    Args:
      settings: the flags in their order.
      command: the command that uses the file.
      evaluated: whether the flags name files for evaluation.
    """
    lines = _comment(
        "The flags of a first training, which --mode=analyze wrote. Change what you like: a new "
        "analysis never overwrites a changed file. A flag on the command line overrides this file."
    )
    lines += [f"#     {command}"]
    for i, setting in enumerate(settings):
        if i == 0 or setting.why != settings[i - 1].why:
            lines += ["", *_comment(setting.why)]
        lines.append(f"--{setting.flag}={setting.value}")
        last = i + 1 == len(settings) or not settings[i + 1].flag.startswith("train_")
        if setting.flag.startswith("train_") and last and not evaluated:
            lines += ["", *_comment(_NO_EVALUATION), "# --eval_files=<other files>"]
    return "\n".join(lines) + "\n"


def _comment(words: str) -> list[str]:
    return textwrap.wrap(
        words[:1].upper() + words[1:] + ("" if words[-1:] in ".:" else "."),
        _WIDTH,
        initial_indent="# ",
        subsequent_indent="# ",
        break_long_words=False,
        break_on_hyphens=False,
    )
