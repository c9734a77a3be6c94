"""Runs one file of tests with pytest; exit code 77: something is missing."""

import importlib.util
import sys

missing = [m for m in ("numpy", "pytest") if not importlib.util.find_spec(m)]
if missing:
    print("skipped: install", " ".join("python3-" + m for m in missing))
    sys.exit(77)

import pytest

code = pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]])
sys.exit(77 if code == pytest.ExitCode.NO_TESTS_COLLECTED else code)
