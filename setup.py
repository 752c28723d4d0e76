"""For tools that call setup.py. What it builds is described in pyproject.toml."""

from setuptools import setup

setup()
