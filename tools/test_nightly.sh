#!/usr/bin/env bash
# test_nightly.sh: every test, with full fault matrices, on both ends of the TensorFlow versions that
# the kit supports, and a shorter set on each version between them. It takes hours.
# The last lines say how many minutes each stage took, and which were skipped for want of a Python.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/stages.sh

shorter=(tests/estimator_kit tests/feature_specs tests/integration/test_program.py
  tests/integration/test_training.py)

oldest_bin="" newest_bin=""
if find_environment 2.15 oldest; then
  oldest_bin=$bin
  stage "$name: environment" make "${options[@]}" environment
  stage "$name: every test" pytest "$bin"
fi
if find_environment 2.21; then
  newest_bin=$bin
  stage "$name: environments" make "${options[@]}" install
  stage "$name: lint" make "${options[@]}" lint
  stage "no TensorFlow: every test" make "${options[@]}" test-no-tensorflow
  stage "$name: every test" pytest "$bin"
fi
if [ -n "$oldest_bin" ] && [ -n "$newest_bin" ]; then
  stage "models that both ends share" shared_models "$oldest_bin" "$newest_bin"
fi
for version in 2.16 2.17 2.18 2.19 2.20; do
  if find_environment "$version"; then
    stage "$name: environment" make "${options[@]}" environment
    stage "$name: shorter set" pytest "$bin" -m "not ci and not nightly" "${shorter[@]}"
  fi
done
[ -n "$oldest_bin$newest_bin" ] || { echo "neither end could be tested" >&2; exit 1; }
