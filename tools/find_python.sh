#!/bin/sh
# find_python.sh [TF [oldest|VERSION]]: prints the newest (or oldest) Python on this machine on which
# the kit runs with TensorFlow TF, such as 2.15, or Python VERSION, such as 3.11; without TF, the
# newest on which it runs at all.
# Looks on the PATH and among pyenv's versions, for Pythons that constraints/ were resolved for.
case "$1" in
  2.15) versions="3.11 3.10 3.9" ;;
  2.1[6-9]) versions="3.12 3.11" ;;
  2.20) versions="3.13 3.12" ;;
  2.21) versions="3.13 3.12 3.11" ;;
  "") versions="3.13 3.12 3.11 3.10 3.9" ;;
  *) echo "TF=$1: expected 2.15 to 2.21" >&2; exit 2 ;;
esac
case "$2" in
  "") ;;
  oldest) versions=$(echo "$versions" | tr ' ' '\n' | sort -t. -k2n) ;;
  *)
    case " $versions " in
      *" $2 "*) versions=$2 ;;
      *) echo "find_python.sh: Python $2 with TensorFlow $1: expected $versions" >&2; exit 2 ;;
    esac ;;
esac
for version in $versions; do
  for python in "python$version" python3 python \
      "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
    if "$python" -c "import sys, venv, ensurepip; sys.exit('%d.%d' % sys.version_info[:2] != '$version')" \
        >/dev/null 2>&1; then
      command -v "$python"
      exit 0
    fi
  done
done
exit 1
