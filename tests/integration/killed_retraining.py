"""Runs one cycle of retraining, and kills itself before its n-th change on disk.

    python -m tests.integration.killed_retraining N MODEL_DIR flagfile

With N = 0 it does not kill itself, and prints the number of changes. Changes are files opened for
writing, copies, renames and removals below the model directory. Python's audit events and the kit's
own writes report them.
"""

from __future__ import annotations

import os
import signal
import sys

from estimator_kit.config.modes import command_of

_CHANGES = {"os.rename", "os.remove", "os.mkdir", "shutil.copyfile", "shutil.rmtree"}


class Killer:
    """Counts changes, and kills the process at the n-th one."""

    def __init__(self, number: int, folder: str):
        self.count = 0
        self._number = number
        self._folder = os.path.abspath(folder)

    def hook(self, event: str, arguments: tuple) -> None:
        mode = arguments[1] if event == "open" else None
        writes = isinstance(mode, str) and set(mode) & set("wax+")
        if not writes and event not in _CHANGES:
            return
        # The lock's heartbeat depends on the clock, not on the stages.
        paths = [os.path.abspath(a) for a in arguments[:2] if isinstance(a, str)]
        if any(p.startswith(self._folder) and "lock.json" not in p for p in paths):
            self.change()

    def change(self) -> None:
        self.count += 1
        if self.count == self._number:
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> int:
    number, folder, flagfile = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    import estimator_kit.compat  # noqa: F401
    from estimator_kit.config.flags import config_from_flagfile
    from estimator_kit.retraining import cycle
    from feature_specs.files import documents

    config = config_from_flagfile(flagfile)
    killer = Killer(number, folder)
    write = documents.write_text

    def counted(path: str, text: str) -> None:
        killer.change()
        write(path, text)
        killer.change()

    documents.write_text = counted  # TensorFlow writes, which no audit event tells.
    sys.addaudithook(killer.hook)
    cycle.run(command_of(config))
    print(killer.count)
    return 0


if __name__ == "__main__":
    sys.exit(main())
