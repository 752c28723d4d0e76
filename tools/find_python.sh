#!/bin/sh
# Prints the first Python from 3.11 down to 3.9 that runs and can make a virtual environment.
for name in python3.11 python3 python3.10 python3.9 python; do
  if "$name" -c 'import sys, venv, ensurepip; sys.exit(not (3, 9) <= sys.version_info[:2] <= (3, 11))' \
      >/dev/null 2>&1; then
    command -v "$name"
    exit 0
  fi
done
exit 1
