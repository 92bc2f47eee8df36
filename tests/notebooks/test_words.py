"""What the notebooks say in words is what their outputs show, and what a run of today shows."""

import re

import nbformat
import pytest

from notebooks import execute

NUMBERS = {8: "eight", 9: "nine", 10: "ten", 11: "eleven", 12: "twelve", 13: "thirteen"}
"""As words write them."""


@pytest.fixture(scope="module", params=["kept", pytest.param("fresh", marks=pytest.mark.slow)])
def outputs(request):
    """The outputs of a notebook and its words; those that are kept, or of a run of today."""
    ran = {}

    def of(name):
        if name not in ran:
            ran[name] = execute.read(name)
            if request.param == "fresh":
                execute.execute(ran[name])
            else:
                kept = nbformat.read(execute.FOLDER / f"{name}.ipynb", as_version=4)
                execute.retell(ran[name], kept)
        words = " ".join(cell.source for cell in ran[name].cells if cell.cell_type == "markdown")
        outs = [out for cell in ran[name].cells for out in cell.get("outputs", [])]
        return outs, " ".join(words.split())

    return of


def printed(outs):
    return "".join(out.get("text", "") for out in outs)


def tables(outs):
    """Every table shown, `label: cells`."""
    found = []
    for html in (out.data["text/html"] for out in outs if "text/html" in out.get("data", {})):
        rows = re.findall(r"<tr[^>]*>(.*?)</tr>", html, re.DOTALL)
        cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
        found.append({row[0]: row[1:] for row in cells if row})
    return found


def first_number(text):
    return float(re.search(r"-?[\d.]+", text)[0])


def test_a_guess_with_a_trigger_is_never_far_off(outputs):
    outs, words = outputs("a_regret_study")
    premium = next(table for table in tables(outs) if "±" in "".join(table.get("trigger", [])))
    percent = {label: [first_number(one) for one in row] for label, row in premium.items() if label}
    assert "within 10 % of the best in all three worlds" in words
    assert max(percent["0.01 + trigger"]) < 10
    assert "0.01 is never more than 19 % above the best player" in words
    assert max(percent["0.01"]) <= 19
    assert '"never" 34 to 137 %' in words
    assert (min(percent["never"]), max(percent["never"])) == (34, 137)
    assert percent["trigger"] == pytest.approx([30, 32, 0], abs=0.5)


def test_no_alarm_was_false_and_the_bound_held(outputs):
    outs, words = outputs("a_regret_study")
    assert "279 alarms" in words
    assert re.search(r"cause\nobjective +279\n", printed(outs))
    assert not re.search(r"^(noise|both) ", printed(outs), re.MULTILINE)
    bound = int(re.search(r"bound after 200 rounds: (\d+)", printed(outs))[1])
    measured = float(re.search(r"width of the theorem +([\d.]+)", printed(outs))[1])
    assert f"{bound} against {measured:.0f} ± 1 measured" in words


def test_what_an_expert_buys(outputs):
    outs, words = outputs("asking_an_expert")
    free, asked = (
        {label: float(row[0]) for label, row in table.items() if re.match(r"[\d.]+$", row[0])}
        for table in tables(outs)
        if any(": c_Q" in label or "window" in label for label in table)
    )
    best = min(free.values())
    often = "SparQ, every round: c_Q = "
    assert f"from {best:.0f}, the best forgetter's, down to {asked[f'{often}1']:.0f}" in words
    assert asked[f"{often}0.5"] > best  # "asking does not always pay"
    by = "W-SparQ, α = 2, α~ = 1/4: c_Q = "
    fewer, more = (asked[f"{by}{2 * c}"] - asked[f"{often}{c}"] for c in (1, 2))
    assert f"better by {NUMBERS[round(fewer)]} at about" in words
    assert f"and by {NUMBERS[round(more)]} at about" in words
    assert asked[f"{by}1"] < asked[f"{often}0.5"]


def test_which_points_are_asked_about(outputs):
    outs, words = outputs("asking_an_expert")
    told = {
        kind: re.search(rf"{kind} *: mean sd ([\d.]+) ± ([\d.]+)", printed(outs)).groups()
        for kind in ("k-DPP", "random")
    }
    assert "{} ± {} to be known, chance {} ± {}".format(*told["k-DPP"], *told["random"]) in words
    (good, error), (chance, other) = (map(float, pair) for pair in told.values())
    assert chance - good > 5 * (error**2 + other**2) ** 0.5


def test_what_a_week_was_worth(outputs):
    outs, words = outputs("a_machine_over_a_week")
    told = re.findall(r"^([\w' ]+?) +loses +([\d.]+ ± [\d.]+) points", printed(outs), re.MULTILINE)
    lost = dict(told)
    held = lost["Monday's best"]
    assert f"best setting loses {held} points" in words
    assert f"and the loop {lost['told nothing']}." in words
    assert f"and loses {lost['never forgets']} over the week" in words
    more = re.search(r"^never forgets .*; +([\d.]+) ± ([\d.]+) more", printed(outs), re.MULTILINE)
    assert "{}: {} ± {} more in the same weeks".format("the week", *more.groups()) in words
    assert float(more[1]) > 2 * float(more[2])
    sure = re.search(r"^It (probably )?drifts \(", printed(outs), re.MULTILINE)
    assert ("It is not sure." in words) == bool(sure[1])
    assert ("It may jump (" in printed(outs)) == ("a drift from a jump" in words)


def test_what_forgetting_is_worth_in_optuna(outputs):
    outs, words = outputs("optuna_on_what_drifts")
    lost = dict(re.findall(r"^(\w+) +loses ([\d.]+) percent", printed(outs), re.MULTILINE))
    drift, tree = lost["DriftSampler"], lost["TPESampler"]
    assert f"`DriftSampler` loses {drift} percent an hour and `TPESampler` {tree}," in words
    assert float(drift) < float(tree) < float(lost["RandomSampler"])
    now = next(table for table in tables(outs) if "study.best_params" in table)
    once, present = (float(now[row][-1]) for row in ("study.best_params", "best_now(study)"))
    assert f"would now bring {once:.1f} percent" in words
    assert f"takes for the best {present:.1f}." in words
