# Sourced by .ci/run and tools/test_nightly.sh: stages that are timed, and environments.
#
#   stage NAME COMMAND...           runs a command; the minutes of each stage are printed when the
#                                   script ends, whether it succeeds or not
#   find_environment TF [oldest]    sets `name`, `bin` and `options` (of make) for a TensorFlow; fails,
#                                   and notes it, where this machine has no Python for it
#   pytest BIN ARGUMENTS...         runs tests in two processes
#   shared_models OLDEST NEWEST     runs the tests of models that two TensorFlows share

minutes=()
trap 'printf "%s\n" "" "minutes of each stage:" "${minutes[@]}"' EXIT

stage() {
  local name=$1 from=$SECONDS
  shift
  echo "== $name"
  minutes+=("     -  $name: FAILED, or was not finished")
  "$@"
  local tenths=$(((SECONDS - from + 3) / 6))
  minutes[-1]=$(printf '%4d.%d  %s' $((tenths / 10)) $((tenths % 10)) "$name")
}

find_environment() {
  local python
  if ! python=$(./tools/find_python.sh "$@"); then
    minutes+=("     -  TensorFlow $1: SKIPPED, no Python for it on this machine")
    return 1
  fi
  name="TensorFlow $1, $("$python" -V)"
  options=(TF="$1" PYTHON="$python")
  bin=.venv/tf$1-py$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')/bin
}

pytest() {
  local bin=$1
  shift
  "$bin/python" -m pytest -n 2 --dist worksteal "$@"
}

shared_models() {
  OTHER_PYTHON=$PWD/$1/python pytest "$2" -m "not nightly" \
    tests/integration/test_two_versions.py tests/estimator_kit/compat/test_two_versions.py
}
