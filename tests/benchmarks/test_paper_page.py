"""The page of the papers' figures says what the stored results say."""

import json

from benchmarks.paper.collect import PAGE
from benchmarks.paper.page import write_page
from benchmarks.speed.common import RESULTS


def test_the_page_is_what_the_files_say(tmp_path):
    studies = json.loads((RESULTS / "studies.json").read_text(encoding="utf-8"))["studies"]
    write_page(RESULTS, studies, tmp_path / PAGE)
    retained = (RESULTS.parent / PAGE).read_text(encoding="utf-8")
    assert (tmp_path / PAGE).read_text(encoding="utf-8") == retained
