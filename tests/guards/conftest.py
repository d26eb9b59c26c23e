"""Steps instead of seconds: a bound on work that holds on any machine."""

from __future__ import annotations

import sys
from contextlib import contextmanager

import pytest


@pytest.fixture
def counted():
    """A context that fails when more than so many lines of Python run within it."""

    @contextmanager
    def bound(most):
        lines = 0

        def trace(frame, event, arg):
            nonlocal lines
            lines += event == "line"
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            yield
        finally:
            sys.settrace(before)
        assert lines <= most, f"{lines} lines of Python"

    return bound
