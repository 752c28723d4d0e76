"""Which settings go together in a search. Imports no TensorFlow."""

from __future__ import annotations

from estimator_kit.config.settings import AllSettings


def problems(config: AllSettings) -> list[str]:
    """What does not go together in `--mode=tune`."""
    if config.mode != "tune":
        return []
    found = []
    if config.model_dir is not None and "://" in config.model_dir:
        found.append(
            f"--model_dir: expected a local or mounted folder, got {config.model_dir!r}. A search "
            "needs locks, which other file systems do not have."
        )
    for flag in ("train_files", "eval_files"):
        shared = sorted(set(getattr(config, flag)) & set(config.test_files))
        if shared:
            found.append(
                f"--{flag} and --test_files share {', '.join(shared)}. Score the best trial on "
                "files that the search has not seen."
            )
    return found
