"""Runs one experiment: python run.py --flagfile=exp.flags. All of it is in estimator_kit."""

import sys

from estimator_kit.main import main

if __name__ == "__main__":
    sys.exit(main())
