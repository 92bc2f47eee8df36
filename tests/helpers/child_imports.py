"""What children of the tests need, imported and found out once by the server that they are forked
from, so that they start in milliseconds."""

import helpers.child_study  # noqa: F401
import pytest  # noqa: F401

import botorch_tv.cli
import botorch_tv.cli.loop
import botorch_tv.simulation.study  # noqa: F401
from botorch_tv.identity import libraries

libraries()
