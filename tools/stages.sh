# Sourced by .ci/run and tools/test_nightly.sh: stages that are timed, and environments.
#
#   stage NAME COMMAND...           runs a command; the minutes of each stage are printed when the
#                                   script ends, whether it succeeds or not
#                                   With keep_going=1 a stage that fails does not end the script,
#                                   which then ends with `finish`
#   in_background COMMAND...        starts a command that runs during the stages that follow. It ends
#                                   with the script
#   background_ends                 waits for it, prints its output, and fails if it failed
#   find_environment TF [PYTHON]    sets `name`, `bin` and `options` (of make) for a TensorFlow. If
#                                   this machine has no Python for it, adds a line that says so, and
#                                   fails. PYTHON is `oldest` or a version; the default is the newest
#   pytest BIN ARGUMENTS...         runs tests in three processes, for at most `longest`, and prints
#                                   why tests were skipped
#   depends_on_tensorflow, not_where_tensorflow_has_it
#                                   arguments of pytest for a TensorFlow that is not the newest

# Python must write bytecode. Otherwise, each of the hundreds of test processes compiles the kit again.
unset PYTHONDONTWRITEBYTECODE
unset VENV  # Each environment has its own folder.
longest=60m

# Tests that another TensorFlow can make fail.
depends_on_tensorflow=(
  tests/estimator_kit/compat
  tests/feature_specs
  tests/estimator_kit/models
  tests/estimator_kit/model
  tests/estimator_kit/optimizers
  tests/estimator_kit/embeddings
  tests/estimator_kit/checkpoints/warm_start
  tests/estimator_kit/exporters/test_{exporters,exports,smaller_tables}.py
  tests/estimator_kit/{scoring,serving}
  tests/estimator_kit/training/test_hooks.py
  tests/estimator_kit/test_tensorflow_errors.py
  tests/tools/test_{source_scan,tensorflow_report}.py
  tests/input_pipelines/prepare/test_beam_runner.py
  tests/input_pipelines/prepare/{analyze,convert,tables}/test_beam_pipeline.py
  tests/integration/test_beam.py
  tests/integration/test_growing{,_warm_start}.py
  tests/integration/test_training.py::test_a_run_from_start_to_end
  tests/integration/test_program.py::test_sigterm_saves_a_checkpoint
)
# On 2.15 tf.estimator is TensorFlow's own, and so are its canned models and heads.
not_where_tensorflow_has_it=(
  --ignore=tests/estimator_kit/compat/test_canned.py
  --ignore=tests/estimator_kit/compat/test_heads.py
  --ignore=tests/estimator_kit/compat/test_train_and_evaluate.py
)

minutes=() failed=0 background_pid="" background_output=""
trap 'ends' EXIT

ends() {
  if [ -n "$background_pid" ]; then
    kill -- "-$background_pid" 2>/dev/null || true
    rm -f "$background_output"
  fi
  [ -z "${minutes[*]-}" ] || printf "%s\n" "" "minutes of each stage:" "${minutes[@]}"
}

in_background() {
  background_output=$(mktemp)
  setsid "$@" >"$background_output" 2>&1 </dev/null &
  background_pid=$!
}

background_ends() {
  local status=0
  wait "$background_pid" || status=$?
  cat "$background_output"
  rm -f "$background_output"
  background_pid=""
  return "$status"
}

stage() {
  local name=$1 from=$SECONDS
  shift
  echo "== $name"
  minutes+=("     -  $name: FAILED, or was not finished")
  if [ -z "${keep_going-}" ]; then
    "$@"
  elif ! "$@"; then
    failed=1
    return 0
  fi
  local tenths=$(((SECONDS - from + 3) / 6))
  minutes[-1]=$(printf '%4d.%d  %s' $((tenths / 10)) $((tenths % 10)) "$name")
}

find_environment() {
  local python
  if ! python=$(./tools/find_python.sh "$@"); then
    minutes+=("     -  TensorFlow $1: FAILED, this machine has no Python ${2-} for it")
    failed=1
    return 1
  fi
  name="TensorFlow $1, $("$python" -V)"
  options=(TF="$1" PYTHON="$python")
  bin=.venv/tf$1-py$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')/bin
}

finish() {
  exit "$failed"
}

pytest() {
  local bin=$1
  shift
  timeout --foreground --kill-after=60 "$longest" \
    "$bin/python" -m pytest -n 3 --dist worksteal -rs "$@"
}
