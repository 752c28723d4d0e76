#!/usr/bin/env bash
# test_nightly.sh: every test, with full fault matrices, on the newest TensorFlow; all but those
# matrices on the oldest; and on each version between them what depends on TensorFlow. A stage that
# fails does not end it, and neither does a TensorFlow for which this machine has no Python. The last
# lines say how many minutes each stage took, and what failed.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/stages.sh
keep_going=1 longest=3h

oldest_bin="" newest_bin=""
if find_environment 2.21; then
  newest_bin=$bin
  stage "$name: environments" make -j2 "${options[@]}" install
  stage "servers of stores" make "${options[@]}" servers azurite
  stage "$name: lint" make "${options[@]}" lint
  stage "documentation" make "${options[@]}" docs
  stage "no TensorFlow: every test" make "${options[@]}" test-no-tensorflow
  stage "$name: all but the mark nightly" pytest "$bin" -m "not nightly"
  stage "$name: the mark nightly" pytest "$bin" -m nightly
fi
if find_environment 2.15 oldest; then
  oldest_bin=$bin
  stage "$name: environment" make "${options[@]}" environment
  stage "$name: all but fault matrices" pytest "$bin" -m "not no_tensorflow and not nightly"
  # Its Keras has other classes than the newest one.
  longest=20m stage "$name: idioms of Estimator code" pytest "$bin" -m nightly \
    tests/conformance/idioms
fi
if [ -n "$oldest_bin" ] && [ -n "$newest_bin" ]; then
  OTHER_PYTHON=$PWD/$oldest_bin/python stage "models that both ends share" pytest "$newest_bin" \
    tests/integration/test_two_versions.py tests/estimator_kit/compat/test_two_versions.py
fi
for version in 2.16 2.17 2.18 2.19 2.20; do
  if find_environment "$version"; then
    stage "$name: environment" make "${options[@]}" environment
    stage "$name: what depends on TensorFlow" pytest "$bin" \
      -m "not no_tensorflow and not nightly" "${depends_on_tensorflow[@]}"
  fi
done
finish
