#!/usr/bin/env bash
# test_matrix.sh [ends]: the tests on every TensorFlow that the kit supports.
#
# At both ends the suite: TensorFlow 2.15 on the oldest Python of this machine that takes it, 2.21 on
# the newest; then the tests in which both share a model. The long tests run whole on 2.21, and on
# 2.15 those that depend most on TensorFlow. On each version between them a shorter set.
# With the argument `ends`, which has an hour, the versions between are left out, and on 2.15 lint,
# the tests of input and serving, most whole runs, and most long tests: 2.21 has them. Its own
# tf.estimator is not tested there, either.
# Of the tests marked `variant` only shared models are run here; `make test-variants` runs all.
# A TensorFlow for which there is no Python is skipped; the last lines say which, and what passed
# and failed.
set -euo pipefail
cd "$(dirname "$0")/.."

between="2.16 2.17 2.18 2.19 2.20"
of_the_oldest=""
long_on_the_oldest="tests/estimator_kit tests/feature_specs tests/integration/test_wheel.py
  tests/integration/test_dynamic_embeddings.py"
case "${1:-}" in
  ends)
    between=""
    of_the_oldest="tests/estimator_kit tests/feature_specs tests/integration/test_program.py
      tests/integration/test_dynamic_embeddings.py --ignore=tests/estimator_kit/serving
      --ignore=tests/estimator_kit/test_runtimes.py --ignore=tests/estimator_kit/test_scoring.py
      --ignore=tests/estimator_kit/compat/test_canned.py
      --ignore=tests/estimator_kit/compat/test_heads.py
      --ignore=tests/estimator_kit/compat/test_train_and_evaluate.py"
    long_on_the_oldest="tests/integration/test_dynamic_embeddings.py"
    ;;
  "") ;;
  *) echo "got '$1', expected 'ends' or nothing" >&2; exit 2 ;;
esac
shorter="tests/estimator_kit tests/feature_specs/test_canned_estimators.py
  tests/integration/test_program.py"
pytest=(-m pytest -n 2 --dist worksteal)
summary=()
trap 'printf "%s\n" "" "${summary[@]}"' EXIT

# choose TF [oldest]: sets `options` for make and `bin` for the environment; fails without a Python.
choose() {
  local python
  if ! python=$(./tools/find_python.sh "$@"); then
    summary+=("TensorFlow $1: SKIPPED, no Python for it on this machine")
    return 1
  fi
  name="TensorFlow $1, $("$python" -V)"
  options=(TF="$1" PYTHON="$python")
  bin=.venv/tf$1-py$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')/bin
}

# suite TESTS COMMAND...: make test, or of its tests these; then the command, for the long tests.
suite() {
  local tests=$1
  shift
  echo "== $name: suite"
  summary+=("$name: suite FAILED, or was not finished")
  if [ -z "$tests" ]; then
    make test "${options[@]}"
  else
    make install "${options[@]}"
    # shellcheck disable=SC2086
    "$bin/python" "${pytest[@]}" -m "not long and not variant" $tests
  fi
  "$@"
  summary[-1]="$name: suite passed"
}

first="" last=""
if choose 2.15 oldest; then
  # shellcheck disable=SC2086
  suite "$of_the_oldest" "$bin/python" "${pytest[@]}" -m "long and not variant" $long_on_the_oldest
  first=$bin/python first_name=$name
fi
if choose 2.21; then
  suite "" make test-long "${options[@]}"
  last=$bin last_name=$name
fi
if [ -n "$first" ] && [ -n "$last" ]; then
  echo "== $first_name and $last_name share their models"
  summary+=("$first_name and $last_name: shared models FAILED, or were not finished")
  OTHER_PYTHON=$PWD/$first "$last/python" "${pytest[@]}" tests/integration/test_two_versions.py \
    tests/estimator_kit/compat/test_two_versions.py
  summary[-1]="$first_name and $last_name: shared models passed"
else
  summary+=("shared models: SKIPPED, they need both ends")
fi
for version in $between; do
  if choose "$version"; then
    echo "== $name: shorter set"
    summary+=("$name: shorter set FAILED, or was not finished")
    make install "${options[@]}"
    # shellcheck disable=SC2086
    "$bin/python" "${pytest[@]}" -m "not long and not variant" $shorter
    summary[-1]="$name: shorter set passed"
  fi
done

[ -n "$first$last" ] || { echo "neither end could be tested" >&2; exit 1; }
