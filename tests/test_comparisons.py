"""What the documentation compares in words is what its tables say: each sentence is made of the table again."""

import re
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

import pwfl
from conftest import ROOT
from pwfl.privacy.gaussian import attack_rate, exact_epsilon
from pwfl.scenario import read
from test_tutorials import EXPECTED, ROW

NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def text_of(page: str) -> str:
    """A page in one line."""
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


def table(page: str, head: str) -> list[list[str]]:
    """The cells of the table whose head begins so, without head and rule; empty cells of a first column repeat."""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    (first,) = (number for number, line in enumerate(lines) if line.startswith(head))
    rows, left = [], ""
    for line in lines[first + 2 :]:
        if not line.lstrip().startswith("|"):
            break
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        left = cells[0] = cells[0] or left
        rows.append(cells)
    return rows


def number(cell: str) -> float:
    """The first number of a cell."""
    return float(NUMBER.search(cell)[0])


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def test_good_epsilon_states_the_success_of_the_best_attack():
    page = "docs/explanation/good_epsilon.md"
    rho = np.geomspace(1e-4, 60, 20_000)
    epsilon = exact_epsilon(rho, 1e-5)
    rows = table(page, "| record-level ε")
    for stated, *rates in rows:
        at = np.interp(float(stated), epsilon, rho)
        assert rates == [percent(attack_rate(at, false)) for false in (0.001, 0.01, 0.1)]
    found = {float(row[0]): number(row[2]) for row in rows}
    assert (round(100 / found[4.0]), round(100 / found[8.0])) == (12, 4)  # one record in twelve, every fourth
    assert found[1.0] <= 2


@pytest.mark.parametrize(
    ("page", "better", "worse", "points"),
    [
        (
            "docs/tutorials/1_first_study.md",
            ("secure_sum", "RndSched"),
            ("single_messages", "RndSched"),
            "{} points more",
        ),
        (
            "docs/tutorials/2_compare_schedulers.md",
            ("one_block", "Greedy"),
            ("one_block", "RndSched"),
            "{} points better",
        ),
        ("docs/how-to/own_air.md", ("own", "Inversion"), ("superposed", "Inversion"), "{} points better"),
        ("examples/moving_users/README.md", ("moving", "JointSNR"), ("moving", "RndSched"), "{} points better"),
        ("examples/sionna_links/README.md", ("traced_sum", "JointSNR"), ("traced", "JointSNR"), "{} points more"),
    ],
)
def test_examples_state_the_difference_of_their_rows(page, better, worse, points):
    assert page in EXPECTED  # whose rows are run
    means = {(scenario, scheme): float(mean) for scenario, scheme, mean, *_ in ROW.findall((ROOT / page).read_text())}
    assert points.format(round(100 * (means[better] - means[worse]))) in text_of(page)


def test_more_devices_learn_more():
    page = "examples/local_dp_mac/README.md"
    rows = ROW.findall((ROOT / page).read_text(encoding="utf-8"))
    means = {(scenario, scheme): float(mean) for scenario, scheme, mean, *_ in rows}
    gains = sorted(
        100 * (means["many_devices", scheme] - means["few_devices", scheme])
        for scheme in ("Over the air", "Orthogonal")
    )
    assert f"{gains[0]:.0f} to {gains[1]:.0f} points more" in text_of(page)


def test_a_learnable_study_agrees_with_the_tutorial_and_a_sum_is_worth_four_times_the_epsilon():
    page, tutorial = "docs/how-to/learnable.md", (ROOT / "docs/tutorials/1_first_study.md").read_text(encoding="utf-8")
    message, total, strokes, few, short, deep = (
        np.array([float(cell) for cell in row[1:]]) for row in table(page, "| record-level ε")
    )
    stated = {scenario: float(mean) for scenario, scheme, mean, *_ in ROW.findall(tutorial) if scheme == "RndSched"}
    assert (message[2], total[2]) == (stated["single_messages"], stated["secure_sum"])  # epsilon of 4
    assert np.abs(total[:2] - message[2:]).max() < 0.02  # epsilons of 1 and 2 against 4 and 8
    assert "worth a factor of four in ε" in text_of(page)
    assert (strokes > message).all()
    assert all((each < message).all() for each in (few, short, deep))


def test_weights_by_precision_lose_from_the_alpha_on_that_is_stated():
    page = "docs/explanation/partitions.md"
    rows = {float(alpha): rest for alpha, *rest in table(page, "| alpha |")}
    gain, low, high = {}, {}, {}
    for alpha, cells in rows.items():
        for scheme, cell in zip(("RndSched", "OptSched", "OptSched+DP"), cells[1::2], strict=True):
            gain[scheme, alpha], low[scheme, alpha], high[scheme, alpha] = map(float, NUMBER.findall(cell))
    assert all((mean > 0) is (alpha >= 0.3) for (scheme, alpha), mean in gain.items() if scheme != "OptSched+DP")
    assert all(mean < 0 for (scheme, _), mean in gain.items() if scheme == "OptSched+DP")
    lost = {scheme: {alpha for (name, alpha), end in high.items() if name == scheme and end < 0} for scheme, _ in high}
    assert lost == {"RndSched": {0.03, 0.01}, "OptSched": {0.1, 0.01}, "OptSched+DP": {0.03, 0.01}}
    said = "significantly for OptSched at 0.1 and 0.01, and for RndSched and OptSched+DP at 0.03 and 0.01"
    assert said in text_of(page)


MULTICELL = "docs/explanation/multicell.md"


def test_gaps_narrow_at_the_small_gamma_and_widen_at_the_large_one():
    gaps = {"1e6": [], "1e7": []}
    for gamma, _, random, best, _, gap, _ in table(MULTICELL, "| gamma | R |"):
        assert float(gap) == pytest.approx(float(random) - float(best), abs=1.5e-3)
        gaps[gamma].append(float(gap))
    assert (np.diff(gaps["1e6"]) < 0).all()
    assert (np.diff(gaps["1e7"]) > 0).all()


LAWS = {"LN(4, 1), 60,000": "ln4_1_r", "LN(4, 1.5), 60,000": "ln4_15_r", "LN(5, 0.5), 60,000": "ln5_05_r"}


def test_what_the_sample_counts_change_is_what_was_kept_at_full_size():
    kept = pl.read_csv(ROOT / "docs/full_size.csv", infer_schema_length=None).filter(pl.col("verdict").is_not_null())
    for law, *cells in table(MULTICELL, "| distribution, all records | OptSched+DP (F4-3)")[1:]:  # but the paper's
        first, second = (f"{LAWS[law]}5", f"{LAWS[law]}8") if law in LAWS else ("r5_gamma1e6", "r8_gamma1e7")
        pairs = [
            kept.filter(claim=claim, scenario=second, against=first).row(0, named=True) for claim in ("F4-3", "F4-5")
        ]
        largest = [kept.filter(claim="F5-8", scenario=name).item(0, "measured") for name in (first, second)]
        assert cells == [*(f"{row['measured']:.3f}" for row in pairs), "; ".join(f"{rho:.2g}" for rho in largest)]
        assert all(row["measured_ci_low"] * row["measured_ci_high"] > 0 for row in pairs)
    fig_4 = kept.filter(pl.col("claim").str.starts_with("F4-"))
    verdicts = {
        law: set(fig_4.filter(pl.col("scenario").str.starts_with(name))["verdict"]) for law, name in LAWS.items()
    }
    assert [law for law, found in verdicts.items() if found == {"supported"}] == [
        "LN(4, 1), 60,000",
        "LN(4, 1.5), 60,000",
    ]
    default = fig_4.filter(study="paper")
    assert set(default.filter(claim="F4-3")["verdict"]) == {"refuted"}
    assert set(default.filter(claim="F4-5")["verdict"]) == {"refuted", "supported"}


def test_what_one_leakage_buys_is_what_the_table_says():
    rows = {}
    for setting, scheme, *_, largest, _, accuracy in table(MULTICELL, "| | scheme | objective"):
        name = re.sub(r"OptSched\+DP, `(\w+)`", r"\1", scheme)
        rows.setdefault(setting, {})[name] = (float(largest), float(accuracy))
    assert len(rows) == 2
    gains = []
    for schemes in rows.values():
        (largest, accuracy), equal = schemes["OptSched+DP"], schemes["equal_sum"]
        assert 1 - equal[0] / largest == pytest.approx(1 / 3, abs=0.02)
        assert equal[1] >= accuracy
        assert schemes["fill_up"][0] == largest
        assert schemes["JointSNR"][0] <= largest
        gains += [100 * (schemes[name][1] - accuracy) for name in ("fill_up", "JointSNR")]
    assert f"accuracy is {min(gains):.1f} to {max(gains):.1f} points higher" in text_of(MULTICELL)


def test_planning_half_of_the_rounds_gains_what_is_stated():
    rows = [
        [scheme, float(rho), float(accuracy)] for _, scheme, _, rho, _, accuracy in filled(MULTICELL, "| channel |")
    ]
    found = {}
    for scheme, rho, accuracy in rows:
        found.setdefault(scheme, []).append((rho, accuracy))
    gains = {scheme: 100 * (each[2][1] - each[1][1]) for scheme, each in found.items()}
    page = text_of(MULTICELL)
    assert f"RndSched gains {gains['RndSched']:.1f} points" in page
    assert f"OptSched {gains['OptSched']:.1f} (" in page
    assert gains["OptSched+DP"] > 0
    assert found["OptSched+DP"][2][0] > 2 * found["OptSched+DP"][0][0]


def filled(page: str, head: str) -> list[list[str]]:
    """The rows of a table whose second column's empty cells repeat the cell above."""
    rows = table(page, head)
    for before, row in pairwise(rows):
        row[1] = row[1] or before[1]
    return rows


def test_losses_above_the_benchmark_s_are_what_was_kept_at_full_size():
    kept = pl.read_csv(ROOT / "docs/full_size.csv", infer_schema_length=None)
    rows = table("docs/explanation/utility_fair.md", "  | uploads | independent noise")
    for scenario, (_, *cells) in zip(("fitted", "noisy_uploads"), rows, strict=True):
        losses = kept.filter(study="utility_fair", claim="F1-1", scenario=scenario)
        shared = pl.col("interpretation").fill_null("").str.contains("shared noise")
        for cell, found in zip(cells, (losses.filter(~shared), losses.filter(shared)), strict=True):
            above, low, high = (
                100 * found.item(0, name) for name in ("measured", "measured_ci_low", "measured_ci_high")
            )
            assert cell == f"{round(above, 1) + 0.0:.1f} % ({low:.1f} to {high:.1f} %)"  # no -0.0


@pytest.mark.parametrize(
    ("claim", "scenario", "said", "factor", "digits"),
    [
        ("S4-1", "fitted", "falls by {} % (95 % interval {} to {} %)", 100, 1),
        ("S1-5", "fitted", "falls by {} % ({} to {} %) in `fitted`", 100, 0),
        ("S1-5", "literal", "by {} % ({} to {} %) in `literal`", 100, 0),
        ("S1-4", "fitted", "differ by {} % ({} to {} %) of their mean", 100, 1),
        ("A-1", "savers", "falls by {} ({} to {})", -1, 3),
        ("S1-2", "savers", "have {} % ({} to {} %) less noise", -100, 1),
        ("S1-1", "savers", "lower their training loss by {} % ({} to {} %)", -100, 1),
    ],
)
def test_fairness_and_savers_are_what_was_kept_at_full_size(claim, scenario, said, factor, digits):
    kept = pl.read_csv(ROOT / "docs/full_size.csv", infer_schema_length=None)
    row = kept.filter(study="utility_fair", claim=claim, scenario=scenario).row(0, named=True)
    value, *ends = (factor * row[name] for name in ("measured", "measured_ci_low", "measured_ci_high"))
    assert said.format(*(f"{number:.{digits}f}" for number in (value, *sorted(ends)))) in text_of(
        "docs/explanation/utility_fair.md"
    )


def test_claims_on_energy_came_out_as_is_said():
    kept = pl.read_csv(ROOT / "docs/full_size.csv", infer_schema_length=None).filter(study="utility_fair")
    kept = kept.filter(pl.col("scenario").is_in(["fitted", "noisy_uploads"]))
    for claim, expected in {"F2-1": ["supported"] * 2, "F2-2": ["supported"] * 2, "S4-2": ["supported"] * 2}.items():
        assert kept.filter(claim=claim)["verdict"].to_list() == expected
    assert kept.filter(claim="S4-1", scenario="noisy_uploads")["verdict"].to_list() == ["refuted"]


def test_energy_is_fair():
    page = "docs/explanation/utility_fair.md"
    proposed, benchmark = table(page, "| | `fitted`: Proposed")[0][1:3]
    spread = [float(NUMBER.findall(cell)[1]) for cell in (proposed, benchmark)]
    assert f"falls by {100 * (1 - spread[0] / spread[1]):.1f} %" in text_of(page)


FREE = "examples/privacy_for_free/README.md"


def test_privacy_for_free_compares_as_its_tables_do():
    gaps = {row[0]: [number(cell) for cell in row[1:] if cell != "same"] for row in table(FREE, "| budget ε")}
    ratios = np.divide(gaps["superposed, adaptive"], gaps["orthogonal, adaptive"])
    assert f"superposed access has {ratios.min():.2f} to {ratios.max():.2f} times the gap" in text_of(FREE)
    for access in ("superposed", "orthogonal"):
        assert (np.array(gaps[f"{access}, adaptive"]) < gaps[f"{access}, static"]).all()
    outside = 0
    for _, script, measured in table(FREE, "| | script | measured"):
        mean, low, high = map(float, re.findall(r"[\d.]+", measured))
        assert abs(mean / float(script) - 1) < 0.1
        outside += not low <= float(script) <= high
    assert outside == len(table(FREE, "| | script | measured")) - 2


CROSSINGS = "docs/explanation/crossings.md"


def test_crossings_compare_symbols_and_epsilons_as_their_table_does():
    rows = table(CROSSINGS, "| messages | air")
    symbols = {(row[1], row[2], row[0]): float(row[9]) for row in rows}
    uploads = [value for (air, *_), value in symbols.items() if air == "uploads"]
    on_air = [value for (air, *_), value in symbols.items() if air != "uploads"]
    least, most = min(uploads) / max(on_air), max(uploads) / min(on_air)
    assert f"need {10 * round(least / 10)} to {10 * round(most / 10)} times fewer symbols" in text_of(CROSSINGS)
    failed = [float(row[6]) for row in rows if "stations that add up" in row[8]]
    assert f"If they fail, ε against the server is {min(failed):.1f} to {max(failed):.1f}." in text_of(CROSSINGS)


# config/systems.yaml, whose table is committed.

KEPT = pl.read_csv(ROOT / "docs/systems.csv")
EPSILON, SEEN = "privacy.target_epsilon", "privacy.observer"
BEST, FEW_BITS = "uploads, OptSched", "uploads of 8 bits, OptSched"


def schemes_of(observer: str) -> dict[str, pl.DataFrame]:
    """The rows of each scheme against an observer, by epsilon."""
    rows = KEPT.filter(pl.col(SEEN) == observer).sort(EPSILON)
    return {name: frame for (name,), frame in rows.group_by("scheme", maintain_order=True)}


def test_uploads_of_a_good_schedule_learn_most_or_as_much_as_any_other():
    for observer in ("user", "network"):
        found = schemes_of(observer)
        best = found.pop(BEST)
        for other in found.values():
            both = other.join(best, on=EPSILON, suffix="_best")
            assert (both["accuracy_ci_high_best"] >= both["accuracy_ci_low"]).all()
        assert best["accuracy_mean"][1:].is_sorted()  # each above all others from an epsilon of 1 on
        assert all((best.join(each, on=EPSILON).filter(pl.col(EPSILON) >= 1).select(
            (pl.col("accuracy_mean") >= pl.col("accuracy_mean_right")).all()
        ).item()) for each in found.values())  # fmt: skip


def test_uploads_need_as_many_times_the_symbols_as_is_stated_and_few_bits_lose_nothing():
    on_air = schemes_of("user")["sums over the air"]["channel_uses_mean"][0]
    said = text_of("docs/reference/studies.md")
    for name, bits in ((BEST, 32), (FEW_BITS, 8)):
        least, most = (schemes_of(seen)[name]["channel_uses_mean"][0] / on_air for seen in ("user", "network"))
        assert f"{least:.0f} to {most:.0f} times the symbols with {bits} bits" in said
    for observer in ("user", "network"):
        few, all_bits = (schemes_of(observer)[name].filter(pl.col(EPSILON) == 4) for name in (FEW_BITS, BEST))
        assert few["accuracy_ci_low"][0] <= all_bits["accuracy_mean"][0] <= few["accuracy_ci_high"][0]


def test_a_sum_is_worth_a_factor_of_four_in_epsilon():
    message, update = (schemes_of(observer)[BEST]["accuracy_mean"].to_numpy() for observer in ("user", "network"))
    assert np.abs(update[:-2] - message[2:]).max() < 0.06
    assert "worth a factor of four in ε" in text_of("docs/reference/studies.md")


# The default study, of which README shows the figure.


@pytest.mark.slow
def test_readme_says_what_the_default_study_comes_to():
    readme_agrees(pwfl.simulate(read([ROOT / "config/config.yaml"])).comparison)


def readme_agrees(comparison) -> None:
    """README's sentence on its figure, of the tables `outcomes` and `effects` of the default study."""
    said = text_of("README.md")
    accuracy = comparison["outcomes"].filter(outcome="accuracy")
    means = {(row["scenario"], row["scheme"]): row for row in accuracy.iter_rows(named=True)}
    total, alone = (means[f"{name},target_epsilon=2", "OptSched"] for name in ("secure_sum", "single_messages"))
    assert f"(docs/explanation/good_epsilon.md) {100 * total['attack_rate']:.1f}%)" in said
    assert (
        f"reaches {100 * total['mean']:.0f}% if the observer sees only sums (solid), and {100 * alone['mean']:.0f}%"
        in said
    )
    effects = comparison["effects"].filter(outcome="accuracy", factor="scheduler")
    pairs = effects.filter(pl.col("to") == "OptSched", pl.col("from") == "RndSched")
    assert (pairs["p_corrected"] < 0.05).all()
    least, most = 100 * pairs["difference"].min(), 100 * pairs["difference"].max()
    assert f"by {least:.0f}–{most:.0f} points, significantly in all {len(pairs)} settings" in said
    own = ("papers_learning", "better_learning")
    costs = [100 * (means[name, "OptSched"]["mean"] - means[name, "OptSched+DP"]["mean"]) for name in own]
    assert f"costs {min(costs):.0f}–{max(costs):.0f} points" in said
