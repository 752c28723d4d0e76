"""Runs one experiment: python run.py --flagfile=exp.flags. The code is in estimator_kit."""

from estimator_kit.main import program

if __name__ == "__main__":
    program()
