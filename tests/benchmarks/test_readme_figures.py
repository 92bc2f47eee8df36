"""README says of speed what the result files say, to the letter, and says it nowhere else."""

import json
import re

from benchmarks.readme import BEGIN, END, README, RESULTS, replaced, section

TIMED = re.compile(r"\d\s?(ms|µs|s)\b(?! [a-z])|\d times (faster|quicker)")


def test_the_section_is_what_the_files_say():
    told = README.read_text(encoding="utf-8")
    assert replaced(section(), told) == told


def test_no_other_line_times_anything():
    before, rest = README.read_text(encoding="utf-8").split(BEGIN)
    assert TIMED.search(rest.split(END)[0])  # the pattern knows a time when it meets one
    assert TIMED.findall(before + rest.split(END)[1]) == []


def test_another_result_gives_another_section(tmp_path):
    for name in ("speed_botorch_loops", "speed_limits", "studies"):
        told = json.loads((RESULTS / f"{name}.json").read_text())
        if name == "speed_botorch_loops":
            told["contenders"][0]["ms"] = 0.777
            told["load_before"] = 4.2
        (tmp_path / f"{name}.json").write_text(json.dumps(told))
    assert "0.777 ms" in section(tmp_path)
    assert "load 4.2" in section(tmp_path)
