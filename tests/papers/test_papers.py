"""Experiments run, resume and are judged."""

import dataclasses
import json
import math
import re
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from helpers.synthetic_results import make_result
from matplotlib.figure import Figure

from benchmarks.paper.page import write_page
from botorch_tv.cli import command as cli
from botorch_tv.papers import (
    EXPERIMENTS,
    claims,
    deng2022,
    event_triggered,
    experiment_named,
    sensors,
    worlds,
)
from botorch_tv.papers.claims import RULE, across, below, compared, outcome_text
from botorch_tv.papers.experiment import OTHER_DATA, Outcome, Recorded
from botorch_tv.papers.recordings import STAND_IN
from botorch_tv.simulation import PanelWorld, StudyResult, executors
from botorch_tv.simulation.streams import Stream
from botorch_tv.simulation.study_record import Paired
from botorch_tv.strategies import et_gp_ucb, gp_ucb

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


@pytest.fixture(params=list(EXPERIMENTS))
def name(request) -> str:
    return request.param


@pytest.mark.slow
@pytest.mark.parametrize(
    "identity",
    [
        *("b16-fig2a", "b16-fig2b", "b16-fig2c", "b16-fig2d"),
        *("et-fig2", "et-table2", "w22-abrupt", "w22-slow", "m-synthetic"),
    ],
)
def test_a_run_has_the_published_verdict(identity, tmp_path):
    outcome = EXPERIMENTS[identity].run(tmp_path)
    ran, published = (
        pd.read_csv(folder / f"{identity}-verdict.csv") for folder in (tmp_path, RESULTS)
    )
    keys = {"case", "lower", "higher", "strategy", "quantity"} & {*published}
    assert ran[sorted(keys)].equals(published[sorted(keys)])
    # An order within a standard error of its limit may change with the last digit.
    close = (
        ((published["t_ratio"].abs() - claims.REQUIRED).abs() < 1)
        if "t_ratio" in published
        else False
    )
    other = ran[(ran["answer"] != published["answer"]) & ~np.asarray(close)]
    assert other.empty, f"{other.to_string()}\n{outcome.verdict}"


DRAWN = {  # by the last experiment with each kind of picture
    getattr(paper.picture, "func", paper.picture): name for name, paper in EXPERIMENTS.items()
}


@pytest.mark.few("b16-fig2c")
def test_every_experiment_runs_small(name, tmp_path, monkeypatch, capsys):
    # Slow, and tested beside its textbook.
    monkeypatch.setattr(sensors, "cross_validated_period", lambda *given: 20)
    if name not in DRAWN.values():  # drawing takes longer than the study
        monkeypatch.setattr(Figure, "savefig", lambda figure, path, **options: path.touch())
    small = dataclasses.replace(EXPERIMENTS[name], horizon=3)
    monkeypatch.setitem(EXPERIMENTS, name, small)
    monkeypatch.setattr(worlds, "POINTS", 5)
    code = cli.main(["paper", name, "--trials", "2", "--quiet", "--out", str(tmp_path)])
    assert code in (0, cli.EXIT_REFUTED)
    assert f"{name}: " in capsys.readouterr().out
    written = {path.name for path in tmp_path.iterdir()}
    studies = {f"{name}-{case}.nc" for case in small.cases}
    tables = {f"{name}-summary.csv", f"{name}-verdict.csv", f"{name}.json"}
    pictures = {f"{name}.png"} | ({f"{name}-map.png"} if small.record else set())
    assert written == studies | tables | pictures
    summary = json.loads((tmp_path / f"{name}.json").read_text())
    assert (summary["title"], summary["paper"]) == (small.title, small.paper)
    recorded = any(case.noise is None for case in small.cases.values())
    assert summary["judged"] is not recorded  # nothing is judged on a synthetic record
    assert (summary["verdict"] == STAND_IN) is recorded
    assert summary["holds"] is None or not recorded
    table = pd.read_csv(tmp_path / f"{name}-summary.csv")
    assert set(table["case"]) == set(small.cases)
    for label, case in small.cases.items():
        result = StudyResult.load(tmp_path / f"{name}-{label}.nc")
        assert result.data.sizes["trial"] == 2
        assert case.noise is None or result.data.attrs["noise"] == case.noise


@pytest.mark.full
def test_an_interrupted_paper_resumes(tmp_path, monkeypatch, capsys):
    name = "et-fig2"
    small = dataclasses.replace(EXPERIMENTS[name], horizon=3)
    monkeypatch.setitem(EXPERIMENTS, name, small)
    monkeypatch.setattr(worlds, "POINTS", 5)
    command = ["paper", name, "--trials", "4", "--quiet", "--chunk", "2", "--out", str(tmp_path)]
    plays = []
    play = executors.play_block

    def counted(study, labels, chunk, *arguments):
        if len(plays) == 3:
            raise KeyboardInterrupt
        plays.append(chunk)
        return play(study, labels, chunk, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(executors, "play_block", counted)
        patched.setattr("torch.get_num_threads", lambda: 1)
        assert cli.main(command) == cli.EXIT_INTERRUPTED
    printed = f"2 of 4 trials are finished, in blocks of 2, and saved in {tmp_path}"
    assert printed in capsys.readouterr().err
    folders = list(small.chunk_folders(tmp_path).values())
    published = [len({file.name for file in folder.glob("*/*.npz")}) for folder in folders]
    assert published == [2, 1, 0, 0]
    assert cli.main(command) in (0, cli.EXIT_REFUTED)
    found = [
        StudyResult.load(tmp_path / f"{name}-{case}.nc").data.attrs["trials_found"]
        for case in small.cases
    ]
    assert found == [4, 2, 0, 0]
    assert not any(folder.exists() for folder in folders)


@pytest.mark.full
def test_a_quick_run_judges_nothing(tmp_path, monkeypatch, capsys):
    small = dataclasses.replace(EXPERIMENTS["w22-slow"], quick=(1, 4))
    monkeypatch.setitem(EXPERIMENTS, "w22-slow", small)
    command = ["paper", "w22-slow", "--quick", "--quiet", "--out", str(tmp_path)]
    assert cli.main(command) == 0
    printed = capsys.readouterr().out
    assert "\nNot judged. A quick look, too small to be judged.\n" in printed
    assert "answer" not in printed
    assert [path.name for path in tmp_path.iterdir()] == ["quick"]  # full-size results stay
    file = tmp_path / "quick" / "w22-slow-noise-1.nc"
    result = StudyResult.load(file)
    assert (result.data.sizes["trial"], result.data.sizes["round"]) == (1, 4)
    assert not list(tmp_path.rglob("*.chunks"))
    assert cli.main([*command, "--trials", "2"]) == 0
    result = StudyResult.load(file)
    assert (result.data.sizes["trial"], result.data.sizes["round"]) == (2, 4)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "errors"),
    [
        ("w22-stocks", "Within a case standard errors are over first arms alone."),
        (
            "et-table1",
            "At stocks standard errors are over first arms alone. At abrupt-fixed, slow-fixed "
            "standard errors are over noise alone.",
        ),
        ("c17-light", "Within a case standard errors are over rows of one record alone."),
        ("et-fig2", ""),
    ],
)
def test_errors_over_first_arms_or_noise_alone_are_named(
    name, errors, tmp_path, monkeypatch, capsys
):
    small = dataclasses.replace(EXPERIMENTS[name], horizon=3, picture=lambda results, path: None)
    monkeypatch.setitem(EXPERIMENTS, name, small)
    monkeypatch.setattr(worlds, "POINTS", 5)
    assert small.errors == errors
    cli.main(["paper", name, "--trials", "2", "--quiet", "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    assert errors in printed
    assert ("errors are over" in printed) == bool(errors)
    write_page(RESULTS, {}, tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    section = page.partition(f"### {name}\n")[2].partition("###")[0]
    assert (f"- {errors}\n" in section) == bool(errors)
    assert ("errors are over" in section) == bool(errors)


@pytest.mark.full
@pytest.mark.parametrize("name", ["et-table1", "w22-stocks", "b16-fig3-traffic", "et-fig3"])
def test_trials_that_share_a_record_differ_in_their_first_arm(name):
    recorded = [case for case in EXPERIMENTS[name].cases.values() if case.noise is None]
    assert recorded
    for case in recorded:
        world, _ = case.stage()
        stream = Stream(0, "start", 0, 3, dtype=torch.float64, device=torch.device("cpu"))
        assert case.trials is None
        assert world.first_arm(stream).tolist() == [0, 1, 2]
        shown = world.look(5, trials=2)
        assert (shown[0] == shown[1]).all()


def numbers(text):
    """Values by name in the text of a world or strategy."""
    found = {}
    for name, value in re.findall(r"(\w+)=(-?\d[\d.e+-]*)", text):
        found.setdefault(name, set()).add(float(value))
    return {name: sorted(values) for name, values in found.items()}


@pytest.mark.few(3)
def test_settings_are_those_of_the_stored_results(name):
    """The text of a study holds every rate, width, period, noise and lengthscale."""
    studies = json.loads((RESULTS / "studies.json").read_text())["studies"]
    paper = EXPERIMENTS[name]
    for label, case in paper.cases.items():
        stored = studies[f"{name}-{label}"]
        assert stored["horizon"] == (case.horizon or paper.horizon)
        if case.noise is None:  # of a record that is not here
            continue
        assert stored["trials"] == (case.trials or paper.trials)
        assert stored["noise"] == pytest.approx(case.noise, rel=1e-9)
        world, strategies = case.stage()
        strategies["world"] = world
        for key, text in {**json.loads(stored["strategies"]), "world": stored["world"]}.items():
            then, now = numbers(text), numbers(repr(strategies[key]))
            assert then.keys() - now.keys() <= {"centers"}
            for setting in then.keys() & now.keys():
                assert now[setting] == pytest.approx(then[setting], rel=1e-5), (key, setting)


def test_bad_input(tmp_path, capsys):
    with pytest.raises(ValueError, match=r"'et-tabel2'; choose from .*et-table2"):
        experiment_named("et-tabel2")
    assert cli.main(["paper", "all", "--data", str(tmp_path), "--out", str(tmp_path)]) == 2
    assert "has no era5" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_order_by_hand():
    # B − A = 3, 2, 4: mean 3, standard error 1/√3, so 5.2 standard errors.
    results = {"case": make_result({"A": [[2], [4], [6]], "B": [[5], [6], [10]]})}
    holds = claims.judge([below("case", "A", "B")], results)
    assert holds.holds is True
    assert holds.table.loc[0, "t_ratio"] == pytest.approx(3 * math.sqrt(3))
    assert "5.2 standard errors" in holds.verdict
    assert claims.judge([below("case", "B", "A", -claims.REQUIRED)], results).holds is False
    reversed_ = claims.judge([below("case", "A", "B"), below("case", "B", "A")], results)
    assert reversed_.holds is False
    assert "B < A at case by -5.2" in reversed_.verdict
    besides = claims.judge([below("case", "A", "B"), below("case", "B", "A", ours=True)], results)
    assert besides.holds is True  # our expectations do not decide
    steady = {"case": make_result({"A": [[1], [2]], "B": [[4], [5]]})}
    always = claims.judge([below("case", "A", "B")], steady)
    assert always.holds is True
    assert "A < B at case by 3 in every trial" in always.verdict
    same = {"case": make_result({"A": [[1], [1]], "B": [[1], [1]]})}
    assert claims.judge([below("case", "A", "B")], same).holds is None
    assert claims.judge([below("case", "A", "B", -claims.REQUIRED)], same).holds is True


@pytest.mark.parametrize(
    ("t_ratio", "required", "answer"),
    [
        *((3.1, 3, "yes"), (2.9, 3, "level"), (-2.9, 3, "level"), (-3.1, 3, "no")),
        *((-2.9, -3, "yes"), (-3.1, -3, "no"), (math.nan, 3, "level"), (math.nan, -3, "level")),
        *((math.inf, 3, "yes"), (-math.inf, 3, "no")),
    ],
)
def test_one_rule_for_orders(t_ratio, required, answer):
    assert compared("case", "A", "B", Paired(t_ratio, 1.0), required)["answer"] == answer


@pytest.mark.parametrize(
    ("answers", "holds"),
    [
        *(("yes yes", True), ("yes level", None), ("level", None)),
        *(("level no", False), ("yes no", False)),
    ],
)
def test_a_level_claim_neither_confirms_nor_refutes(answers, holds):
    t_ratios = {"yes": 9.0, "level": 0.0, "no": -9.0}

    def claim(answer, results):
        return compared("case", "A", "B", Paired(t_ratios[answer], 1.0))

    own = [partial(claim, answer) for answer in answers.split()]
    outcome = claims.judge(own, {})
    assert outcome.holds is holds
    assert claims.judge_readings({"1": own, "2": [partial(claim, "no")]}, {}).holds is holds
    assert claims.judge_readings({"1": own, "2": [partial(claim, "yes")]}, {}).holds is True
    assert claims.also(outcome, [{"windows": 3}]).holds is holds
    assert claims.also(outcome, [{"answer": "no"}]).holds is False
    level = "level: A < B at case by 0.0 standard errors"
    assert (level in outcome.verdict) == ("level" in answers)
    assert outcome_text(outcome).count(RULE) == 1


@pytest.mark.parametrize(
    ("least", "most", "holds"), [(2, 3, True), (2.1, 3, False), (0.5, 1, False)]
)
def test_a_figure_by_hand(least, most, holds):
    resets = {"A": np.array([[1, 0, 0, 1], [0, 0, 1, 0]], dtype=bool)}
    result = make_result({"A": [[1, 1, 1, 1], [1, 1, 1, 1]], "B": [[0, 0, 0, 1], [1, 1, 1, 0]]})
    row = claims.similar("case", "A", "B")({"case": result})
    assert (row["least"], row["most"], row["found"]) == (1 / 1.1, 1.1, 2)

    def ratio(study):
        return study.total_regret("A").mean() / study.total_regret("B").mean()

    outcome = claims.judge([claims.within("case", "ratio", ratio, least, most)], {"case": result})
    assert outcome.holds is holds
    assert "the ratio is 2 (at least" in outcome.verdict
    assert ("not what the paper says" in outcome.verdict) is not holds
    assert "no orders" not in outcome.verdict
    fired = make_result({"A": [[0] * 4] * 2}, resets)
    assert deng2022.share_with_reset("A", 2, 3)(fired) == 0.5
    assert deng2022.share_with_reset("A", 1, 4)(fired) == 1.0


def test_one_reading_of_a_paper_is_enough():
    results = {"case": make_result({"A": [[2], [4], [6]], "B": [[5], [6], [10]]})}
    right, wrong = [below("case", "A", "B")], [below("case", "B", "A")]
    outcome = claims.judge_readings({"B = 1": wrong, "B = 2": right}, results)
    assert outcome.holds is True
    assert outcome.verdict.startswith("With B = 1: 0 of 1 orders of the paper hold; wrong")
    assert "With B = 2: 1 of 1 orders of the paper holds" in outcome.verdict
    assert outcome.table["reading"].tolist() == ["B = 1", "B = 2"]
    assert claims.judge_readings({"one": wrong, "other": wrong}, results).holds is False


@pytest.mark.parametrize(("regret", "agree"), [(4.0, 2), (8.89, 2), (8.91, 1), (-0.91, 1)])
def test_cells_by_hand(regret, agree):
    # R_T = 2, 4, 6: mean 4, sd 2; tolerance 3·2·√(1/3 + 1/3) = 4.90. Resets: 1, 0, 2.
    fired = np.array([[True, False], [False, False], [True, True]])
    result = make_result({"δ": [[1, 1], [3, 1], [2, 4]]}, {"δ": fired})
    outcome = event_triggered.judge_cells({"case": {"δ": (1.5, regret)}}, 3, {"case": result})
    assert (outcome.table["answer"] == "yes").sum() == agree
    assert outcome.holds is (agree == 2)
    assert outcome.table["ours"].tolist() == [1, 4]
    assert f"{agree} of 2 means" in outcome.verdict
    single = make_result({"δ": [[1.0]]})
    outcome = event_triggered.judge_cells({"case": {"δ": (0, 1)}}, 50, {"case": single})
    assert outcome.holds is None


def test_waiting_times_by_hand():
    fired = np.zeros((4, 10), dtype=bool)
    fired[0, [1, 5]] = fired[1, 3] = fired[2, 8] = True  # first resets in rounds 2, 4, 9, and none
    result = make_result({"ET-GP-UCB": np.zeros((4, 10))}, {"ET-GP-UCB": fired})
    quiet = make_result({"ET-GP-UCB": np.zeros((3, 5))})
    outcome = event_triggered._waiting_times({"epsilon-0.03": result, "epsilon-0.1": quiet})
    row, without = outcome.table.loc[0], outcome.table.loc[1]
    assert list(row[["mean", "median", "never", "period"]]) == pytest.approx([5, 6.5, 0.25, 29])
    assert (without["never"], without["median"]) == (1, math.inf)
    assert outcome.holds is None
    assert "25.00% of trials have none" in outcome.verdict


CLAIMS = [
    compared("slow", "ET-GP-UCB", "GP-UCB", Paired(12.34, 2.0)),
    compared("slow", "TV-GP-UCB", "ET-GP-UCB", Paired(-1234.5, 1e-13)),
    compared("fast", "GP-UCB", "Random", Paired(0.00012, 0.00001), ours=True),
]
NUMBERS = [
    {"windows": 210, "case": "slow", "share": 0.4083},
    {"windows": 3, "case": "f", "share": 1},
]


def text(**changes):
    table = pd.concat([pd.DataFrame(CLAIMS), pd.DataFrame(NUMBERS)], ignore_index=True)
    return outcome_text(Outcome(table, "One does not hold.", False)._replace(**changes))


def test_claims_numbers_and_verdict():
    claims, numbers, rule, verdict = text().split("\n\n")
    assert rule == RULE
    head, first, second, third = (line.split() for line in claims.splitlines())
    assert head[:5] == ["case", "lower", "higher", "required", "ours"]
    assert first == ["slow", "ET-GP-UCB", "GP-UCB", "3", "False", "12.34", "2", "6.17", "yes"]
    assert second[5:] == ["-1234.5", "1e-13", "-inf", "no"]
    assert third == ["fast", "GP-UCB", "Random", "3", "True", "0.00012", "1e-05", "12", "yes"]
    assert [line.split() for line in numbers.splitlines()] == [
        ["case", "windows", "share"],
        ["slow", "210", "0.4083"],
        ["f", "3", "1"],
    ]
    assert verdict == "Does not agree with the paper. One does not hold."
    assert "nan" not in text().lower()


def test_other_verdicts():
    assert text(holds=True).endswith("\n\nAgrees with the paper. One does not hold.")
    assert text(holds=None).endswith("\n\nLevel. One does not hold.")
    numbers = text(holds=None, table=pd.DataFrame(NUMBERS))
    assert numbers.endswith("Nothing to agree or disagree with. One does not hold.")
    assert RULE not in numbers
    assert text(holds=None, judged=False).endswith("Not judged. One does not hold.")


def test_a_single_trial_has_no_error():
    row = compared("slow", "A", "B", Paired(1.0, math.nan))
    lines = outcome_text(Outcome(pd.DataFrame([row]), "", False)).splitlines()
    assert lines[1].split() == ["slow", "A", "B", "3", "False", "1", "level"]


def test_an_order_over_several_days():
    """The standard error is between days, whatever the number of trials of a day."""
    gaps = [1.0, 2.0, 4.0]
    results = {
        str(gap): make_result({"A": np.zeros((9, 1)), "B": np.full((9, 1), gap)}) for gap in gaps
    }
    row = across(list(results), "A", "B", name="three days")(results)
    assert row["case"] == "three days"
    error = np.std(gaps, ddof=1) / math.sqrt(3)
    assert (row["difference"], row["standard_error"]) == pytest.approx((7 / 3, error))
    assert row["answer"] == "level"
    assert 2 < row["t_ratio"] < 3


@pytest.mark.parametrize("owned", [False, True])
def test_other_data_is_named_and_not_judged(owned, tmp_path):
    name = "mine.csv"
    if owned:
        (tmp_path / name).touch()
    readings = np.random.default_rng(0).standard_normal((24, 3))
    case = Recorded(
        "sensors",
        lambda records: PanelWorld(readings, train=20, first_arm="each"),
        lambda world: {
            "GP-UCB": gp_ucb(kernel=world.kernel, noise=0.1),
            "ET-GP-UCB": et_gp_ucb(kernel=world.kernel, noise=0.1),
        },
        "three roads",
        name,
    )
    paper = dataclasses.replace(
        EXPERIMENTS["et-fig2"],
        cases={"sensors": case},
        picture=None,
        score=partial(claims.judge, [claims.similar("sensors", "GP-UCB", "ET-GP-UCB")]),
    )
    outcome = paper.run(tmp_path, data=tmp_path, progress=False)
    stored = json.loads((tmp_path / "et-fig2.json").read_text(encoding="utf-8"))
    for found in (outcome._asdict(), stored):
        assert found["judged"] is owned
        assert (found["holds"] is None) is not owned
        assert found["verdict"].startswith(f"{OTHER_DATA}: three roads. ") is not owned
    assert "answer" in outcome.table
    assert ("Not judged. Other data than the paper's" in outcome_text(outcome)) is not owned
