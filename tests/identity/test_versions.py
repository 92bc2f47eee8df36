"""Versions of libraries, and those of several runs told together."""

import json

from botorch_tv.identity.versions import own_versions

from botorch_tv.identity import together, versions


def test_versions_are_kept_as_they_are_told() -> None:
    assert json.loads(own_versions()) == versions()


def test_each_version_is_told_once_in_the_order_of_runs() -> None:
    runs = [{"torch": "2.12", "numpy": "2.1"}, {"torch": "2.13"}, {"torch": "2.12, 2.11"}]
    assert together(runs) == {"torch": "2.12, 2.13, 2.11", "numpy": "2.1"}
    assert together([]) == {}
