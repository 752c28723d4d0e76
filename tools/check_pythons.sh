#!/usr/bin/env bash
# check_pythons.sh [find]: `make check-python` with every Python that the README promises, each with the
# oldest and the newest TensorFlow that it has. An environment of the tests that exists is used as it is;
# otherwise the kit is installed as a user installs it. A check that fails does not end it. The last lines
# say how many minutes each took, and what failed. `find` only looks for the Pythons, and fails if this
# machine lacks one.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/stages.sh
keep_going=1

for pair in "2.15 3.9" "2.15 3.10" "2.15 3.11" "2.21 3.11" "2.21 3.12" "2.21 3.13"; do
  # shellcheck disable=SC2086  # Two words.
  if find_environment $pair && [ "${1-}" != find ]; then
    check=(make "${options[@]}" check-python)
    [ ! -e "$bin/../installed" ] || check=("$bin/python" tools/check_python.py)
    stage "$name: every module, and a small run" "${check[@]}"
  fi
done
finish
