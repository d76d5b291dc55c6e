"""Text at the top of a study report: the main sentence, the audits' verdict, and facts, computed from tables.

A `Markup` is HTML; its `striptags` returns plain text.
"""

import math
from typing import NamedTuple

import polars as pl
from markupsafe import Markup, escape

from pwfl.privacy.labels import CONDITIONAL
from pwfl.privacy.labels import NONE as UNGUARANTEED
from pwfl.report import unscheduled
from pwfl.report.points import find_outcome
from pwfl.report.statements import count, judged
from pwfl.report.words import ALL, UNIT, between, is_share, lower, number, plural, rate

STRONG, WEAK = 0.05, 0.5  # attack rates: largest of a good leading point, least of weak privacy
STRANGERS = "an attacker who wrongly accuses 1% of non-members"
GOOD, POOR, CHANCE, BARE, NOTHING = "good", "poor", "not above chance", "without privacy", "no result"
OPEN, NOBODY = "no finite epsilon", "nobody scheduled"
PASSED, FAILED, UNTESTED = "passed", "failed", "not audited"
BADGES = {  # style and text of the audits' verdict, with a sign
    PASSED: ("good", "✓ Audit passed"),
    FAILED: ("bad", "✗ Audit failed"),
    UNTESTED: ("none", "Not audited"),
}
PROTECTS_NOTHING = 20  # epsilon above which the text states this
NOISE_TEST = "deviation of the noise"


class Lead(NamedTuple):
    """The leading point, None if no point has a result, and its kind: GOOD, POOR, CHANCE, BARE, ..."""

    kind: str
    point: dict | None


class Audit(NamedTuple):
    """The result of a study's audits."""

    verdict: str
    tests: int = 0
    failed: int = 0
    schemes: int = 0
    has_lead: bool = False  # whether the leading point was audited
    first: dict | None = None  # the first test that failed
    detectable: float | None = None  # relative lack of noise that would have been detected


def lead(points: pl.DataFrame) -> Lead:
    """Select the best guaranteed point above chance with attack rate at most STRONG, or else the lowest attack rate.

    If some points have an attack rate, points without one do not lead as GOOD. `points` are of one system.

    >>> def of(**rows):
    ...     base = {"outcome": ["accuracy"], "system": ["multicell"], "bare": [False], "useless": [False],
    ...             "guarantee": ["proved"], "attack_rate": [None], "realizations": [4], "no_user_scheduled": [0]}
    ...     count = len(rows["mean"])
    ...     found = lead(pl.DataFrame({key: own * count for key, own in base.items()} | rows))
    ...     return found.kind, found.point and found.point["mean"]
    >>> of(mean=[0.9, 0.8, 0.7], epsilon=[18.0, 2.0, 1.0], attack_rate=[0.8, 0.034, 0.02])
    ('good', 0.8)
    >>> of(mean=[0.9, 0.8], epsilon=[18.0, 4.0], attack_rate=[0.8, 0.081])
    ('poor', 0.8)
    >>> of(mean=[0.9], epsilon=[2.0], attack_rate=[None])
    ('good', 0.9)
    >>> of(mean=[0.9, 0.8], epsilon=[2.0, 2.0], attack_rate=[None, 0.034])
    ('good', 0.8)
    >>> of(mean=[0.9, 0.95], epsilon=[2.0, 2.0], attack_rate=[0.03, 0.03], guarantee=["proved", "none"])
    ('good', 0.9)
    >>> of(mean=[0.1], epsilon=[2.0], attack_rate=[0.03], useless=[True]), of(mean=[None], epsilon=[1.0])
    (('not above chance', 0.1), ('no result', None))
    >>> of(mean=[0.9], epsilon=[float("inf")], bare=[True]), of(mean=[0.9], epsilon=[float("inf")])
    (('without privacy', 0.9), ('no finite epsilon', 0.9))
    >>> of(mean=[0.1], epsilon=[None], no_user_scheduled=[4])
    ('nobody scheduled', 0.1)
    """
    known = points.filter(pl.col("mean").is_finite())
    private = known.filter(~pl.col("bare"), pl.col("epsilon").is_finite())
    if known.is_empty() or known["outcome"][0].startswith("epsilon"):  # nothing was trained
        return Lead(NOTHING, next(private.sort("epsilon").iter_rows(named=True), None))
    good = pl.col("mean") if find_outcome(known.row(0, named=True)).better == "more" else -pl.col("mean")
    above = private.filter(~pl.col("useless"))
    guaranteed = above.filter(pl.col("guarantee") != UNGUARANTEED)
    rated = private["attack_rate"].null_count() < len(private)
    may_lead = guaranteed.filter((pl.col("attack_rate") <= STRONG).fill_null(value=not rated))
    nobody = known.filter(pl.col(unscheduled.COLUMN) == pl.col("realizations"))
    other = BARE if known["bare"].all() else NOBODY if len(nobody) == len(known) else OPEN
    for kind, candidates, order in (
        (GOOD, may_lead, [-good, pl.col("epsilon")]),
        (POOR, guaranteed if len(guaranteed) else above, [pl.col("attack_rate").fill_null(2.0).round(3), -good]),
        (CHANCE, private, [-good]),
        (other, known, [-good]),
    ):
        if len(candidates):
            return Lead(kind, candidates.sort(order, maintain_order=True).row(0, named=True))
    raise AssertionError


def result(point: dict) -> str:
    """Describe a point's result: the outcome's value with its unit, and the outcome's name.

    >>> result({"system": "multicell", "outcome": "accuracy", "mean": 0.949})
    '94.9% accuracy'
    >>> result({"system": "age_aware", "outcome": "loss_difference_wh2", "mean": 0.0123})
    '0.0123 Wh² simulated loss difference'
    """
    outcome = find_outcome(point)
    if point["outcome"] == "accuracy":
        return f"{number(point['mean'], outcome)} accuracy"
    match = UNIT.match(outcome.title)
    value, title = number(point["mean"], outcome), match[1] if match else outcome.title
    return f"{value} {match[2] + ' ' if match and not is_share(outcome) else ''}{lower(title)}"


def sentence(lead: Lead, audit: Audit) -> Markup:
    """Write the main sentence of a study, with its accuracy, epsilon and attack rate.

    >>> point = {"system": "multicell", "outcome": "accuracy", "mean": 0.949, "ci_low": 0.944, "ci_high": 0.954}
    >>> point |= {"epsilon": 2.0, "attack_rate": 0.034, "guarantee": "proved", "epsilon_assumes": "", "chance": 0.131}
    >>> def of(kind, audit=Audit(PASSED), **more): return sentence(Lead(kind, point | more), audit).striptags()
    >>> of(GOOD)
    '94.9% accuracy at record-level ε = 2, where an attacker who wrongly accuses 1% of non-members finds at most 3.4% \
of members.'
    >>> of(GOOD, guarantee="conditional", epsilon_assumes="Markov data", attack_rate=None)
    '94.9% accuracy at record-level ε = 2, assuming Markov data.'
    >>> of(POOR, epsilon=18.1, attack_rate=0.81)
    '94.9% accuracy, but weak privacy: at record-level ε = 18.1 an attacker who wrongly accuses 1% of non-members \
finds up to 81% of members.'
    >>> of(POOR, epsilon=60.0, attack_rate=0.9999)[-41:]
    'of non-members finds over 99% of members.'
    >>> of(POOR, guarantee="none", epsilon=0.0)
    '94.9% accuracy at record-level ε = 0, which is computed, not guaranteed.'
    >>> of(GOOD, Audit(FAILED))
    '94.9% accuracy at record-level ε = 2 if the audit had passed.'
    >>> of(CHANCE, mean=0.13)
    'Nothing was learned: at record-level ε = 2 no scheme with noise is above chance (13.1%). The best reaches 13.0% \
(95% interval 94.4% to 95.4%).'
    >>> of(BARE, epsilon=float("inf")), sentence(Lead(NOTHING, None), Audit(UNTESTED)).striptags()
    ('94.9% accuracy, without privacy: no scheme of this study adds noise.', 'No scheme has a result.')
    """
    point = lead.point
    if point is None:
        return Markup("<b>No scheme has a result.</b>")
    if lead.kind == NOTHING:
        words = "<b>No model was evaluated.</b> The smallest record-level ε is <b>{}</b> ({})."
        return Markup(words).format(number(point["epsilon"]), point["scheme"])
    best = Markup("<b>{}</b>").format(result(point))
    at = Markup(" at record-level <b>ε = {}</b>").format(number(point["epsilon"]))
    if lead.kind == BARE:
        return best + ", without privacy: no scheme of this study adds noise."
    if lead.kind == NOBODY:
        return Markup("<b>Nothing was learned:</b> no user is scheduled in any realization.")
    if lead.kind == OPEN:
        return best + ", without a finite ε: nothing is known to be private."
    if lead.kind == CHANCE:
        level = "a stated" if audit.verdict == FAILED else "record-level"
        interval = between(point["ci_low"], point["ci_high"], find_outcome(point))
        chance, reached = (number(point[column], find_outcome(point)) for column in ("chance", "mean"))
        words = "<b>Nothing was learned:</b> at {} ε = {} no scheme with noise is above chance (<b>{}</b>). "
        words = Markup(words).format(level, number(point["epsilon"]), chance)
        words += Markup("The best reaches <b>{}</b>").format(reached)
        return words + (f" (95% interval {interval})." if interval else ".")
    if audit.verdict == FAILED:
        return best + at + " if the audit had passed."
    if point["guarantee"] == UNGUARANTEED:
        return best + at + ", which is computed, not guaranteed."
    assumed = f", assuming {point['epsilon_assumes']}" if point["guarantee"] == CONDITIONAL else ""
    if (attacked := point["attack_rate"]) is None or math.isnan(attacked):
        return best + at + escape(assumed) + "."
    members = Markup("<b>{}</b> of members.").format(rate(attacked))
    if lead.kind == GOOD:
        return best + at + escape(assumed) + f", where {STRANGERS} finds at most " + members
    weak = ", but weak privacy:" if attacked >= WEAK else ""
    link = " " if weak else assumed + ": "
    assumed = assumed + "," if weak and assumed else ""
    return best + weak + at + escape(assumed) + f"{link}{STRANGERS} finds " + "up to " * (attacked <= ALL) + members


def audited(audits: dict[str, pl.DataFrame], point: dict | None) -> Audit:
    """Summarize the audits of scenarios, tables by the scenarios' names; `point` is the leading one.

    >>> rows = {"scheme": ["A", "A"], "test": ["sensitivity", "deviation of the noise"], "measured": [1.0, 0.9]}
    >>> rows |= {"expected_min": [0.99, 0.99], "expected_max": [1.0, 1.01], "detectable": [0.001, 0.014]}
    >>> passed = pl.DataFrame(rows | {"status": ["passed", "passed"]})
    >>> audited({"one": passed}, {"scenario": "one", "scheme": "A"})[:5], audited({}, None)[:2]
    (('passed', 2, 0, 1, True), ('not audited', 0))
    >>> one = pl.DataFrame(rows | {"status": ["passed", "failed"]})
    >>> failed = audited({"one": one}, {"scenario": "two", "scheme": "A"})
    >>> failed[:5], failed.first["test"]
    (('failed', 2, 1, 1, False), 'deviation of the noise')
    """
    status, frames = pl.col("status").cast(pl.String), [pl.DataFrame()]
    for name, frame in audits.items():
        frames.append(frame.filter(status.is_in([PASSED, FAILED])).with_columns(scenario=pl.lit(name)))
    rows = pl.concat(frames, how="diagonal_relaxed")
    if rows.is_empty():
        return Audit(UNTESTED)
    violated = rows.filter(status == FAILED)
    schemes = set(rows.select("scenario", "scheme").iter_rows())
    return Audit(
        FAILED if len(violated) else PASSED,
        len(rows),
        len(violated),
        len(schemes),
        point is not None and (point["scenario"], point["scheme"]) in schemes,
        violated.row(0, named=True) if len(violated) else None,
        rows.filter(test=NOISE_TEST).select(pl.col("detectable").max()).item(),
    )


def alarm(audit: Audit) -> Markup:
    """Write the warning at the top of the study report if an audit failed.

    >>> first = {"test": "deviation of the noise", "measured": 0.9, "expected_min": 0.99, "expected_max": 1.01}
    >>> alarm(Audit(FAILED, 25, 6, first=first)).striptags()
    '✗ Audit failed: do not rely on the ε of this study. 6 of 25 tests of the training code contradict it. First of \
them, deviation of the noise: 0.9 measured, 0.99 to 1.01 expected.'
    """
    words = (
        "<b>✗ Audit failed: do not rely on the ε of this study.</b> {} of {} contradict it. First of them, {}: {} "
        "measured, {} expected."
    )
    first = audit.first or {}
    tests = f"{plural(audit.tests, 'test')} of the training code"
    return Markup(words).format(
        audit.failed,
        tests,
        first["test"],
        number(first["measured"]),
        between(first["expected_min"], first["expected_max"]),
    )


def facts(lead: Lead, audit: Audit, points: pl.DataFrame, published: pl.DataFrame, withheld: bool) -> dict[str, str]:
    """Answer a reader's questions as far as possible, by question; `withheld`: whether private columns are left out.

    Epsilons of several systems are not comparable: such a study has no answers on trust and on the unit of privacy.
    """
    point, answers, one_system = lead.point, {}, points["system"].n_unique() == 1
    if audit.verdict == FAILED:
        answers["What is still right?"] = (
            "Accuracies, airtime and energy: they were measured as they are. The ε, the attack rates and all that "
            "follows from them are not."
        )
        answers["What to do?"] = (
            "Mend the first failed test of the list below; later ones often follow from it. Then run again: what "
            "depends on it is recomputed."
        )
    elif point is not None:
        private = lead.kind not in (BARE, OPEN, NOBODY, NOTHING)
        answers["Is the ε real?"] = real(audit) if private else ""
        answers["Whom must users trust?"] = trust(lead, points) if one_system else ""
        answers["Whose privacy?"] = whose(point) if private and one_system else ""
        answers["And if everything is published?"] = everything(published)
    if withheld:
        answers["Not shown"] = "Columns and figures made of users’ records without noise; the last section names them."
    return {question: answer for question, answer in answers.items() if answer}


def real(audit: Audit) -> str:
    """Describe whether the tests of the training code agree with epsilon.

    >>> real(Audit(PASSED, 250, 0, 10, True, None, 0.0137))
    '250 tests of the training code agree with it, for 10 schemes, the one above included. Noise 1.4% too small would \
have been found.'
    >>> real(Audit(PASSED, 1, 0, 1)), real(Audit(UNTESTED))
    ('1 test of the training code agrees with it, for 1 scheme; the one above was not audited.', 'Not tested: this \
study ran no audit.')
    """
    if audit.verdict == UNTESTED:
        return "Not tested: this study ran no audit."
    included = ", the one above included" if audit.has_lead else "; the one above was not audited"
    agree = "agrees" if audit.tests == 1 else "agree"
    tests, schemes = plural(audit.tests, "test"), plural(audit.schemes, "scheme")
    agreement = f"{tests} of the training code {agree} with it, for {schemes}{included}."
    detected = f" Noise {audit.detectable:.1%} too small would have been found." if audit.detectable else ""
    return agreement + detected


def trust(lead: Lead, points: pl.DataFrame) -> str:
    """Describe the leading epsilon's observer and trusted parties, and the best result if an observer sees more.

    >>> rows = {"system": "multicell", "outcome": "accuracy", "scheme": ["Opt", "Rnd"], "mean": [0.949, 0.75]}
    >>> rows |= {"epsilon": 2.0, "rank": [1, 0], "seen": ["the sum of all", "each message"], "bare": False}
    >>> rows |= {"epsilon_trusts": ["secure aggregation", ""], "useless": False, "guarantee": "proved"}
    >>> points = pl.DataFrame(rows)
    >>> trust(Lead(GOOD, points.row(0, named=True)), points)
    'The ε above holds against whoever sees the sum of all, trusting secure aggregation. Against whoever sees each \
message, the best at ε ≤ 2 is 75.0% (Rnd).'
    >>> trust(Lead(GOOD, points.row(1, named=True)), points), trust(Lead(BARE, None), points)
    ('Nobody: ε holds against whoever sees each message.', '')
    """
    point = lead.point
    if point is None or lead.kind not in (GOOD, POOR, CHANCE) or not point["seen"]:
        return ""
    if not point["epsilon_trusts"]:
        return f"Nobody: ε holds against whoever sees {point['seen']}."
    holds = f"The ε above holds against whoever sees {point['seen']}, trusting {point['epsilon_trusts']}."
    outcome, more = find_outcome(point), pl.col("rank") < point["rank"]
    others = points.filter(more, ~pl.col("bare"), ~pl.col("useless"), pl.col("epsilon") <= 1.01 * point["epsilon"])
    others = others.filter(pl.col("guarantee") != UNGUARANTEED)
    if others.is_empty():
        return holds
    other = others.sort("mean", descending=outcome.better == "more").row(0, named=True)
    best = f"the best at ε ≤ {number(point['epsilon'])} is {number(other['mean'], outcome)} ({other['scheme']})"
    return f"{holds} Against whoever sees {other['seen']}, {best}."


def whose(point: dict) -> str:
    """Describe the data that epsilon protects, and the epsilon of all records of a user.

    >>> whose({"epsilon_user": 3747.0, "epsilon_user_max": 11348.0, "unit": "one training record of one user"})
    'One training record’s. For all records of a user, ε reaches 11,300 in the worst realization, \
which protects nothing.'
    >>> whose({"epsilon_user": 3.0, "epsilon_user_max": 3.0, "unit": "one training record of one device"})
    'One training record’s. For all records of a device, ε reaches 3 in the worst realization.'
    >>> whose({"epsilon_user": None, "epsilon_user_max": None, "unit": None}), whose({"epsilon_user": 0.0, \
"epsilon_user_max": float("inf"), "unit": "x"})
    ('', 'One training record’s. For all records of a user, ε reaches ∞ in the worst realization, \
which protects nothing.')
    """
    most = point["epsilon_user_max"]
    if point["epsilon_user"] is None or most is None:
        return ""
    whom = next((word for word in ("device", "client") if word in (point["unit"] or "")), "user")
    nothing = ", which protects nothing" if most > PROTECTS_NOTHING else ""
    reached = f"ε reaches {number(most)} in the worst realization{nothing}"
    return f"One training record’s. For all records of a {whom}, {reached}."


def everything(published: pl.DataFrame) -> str:
    """Describe the epsilon of a record if all of a study were published.

    >>> row = {"records": "digits", "releases": 720, "epsilon": 1213.0}
    >>> everything(pl.DataFrame([row]))
    'All 720 training runs together cost a record ε = 1,210: publish one run, or use public data.'
    >>> everything(pl.DataFrame([row | {"epsilon": 3.0, "releases": 1}]))
    'Its one training run with noise costs a record ε = 3.'
    >>> everything(pl.DataFrame([row | {"epsilon": None}]))
    ''
    """
    known = published.filter(pl.col("epsilon").is_not_null())
    if known.is_empty():
        return ""
    row = known.sort("epsilon", descending=True).row(0, named=True)
    end = ": publish one run, or use public data." if row["epsilon"] > PROTECTS_NOTHING and row["releases"] > 1 else "."
    if row["releases"] == 1:
        return f"Its one training run with noise costs a record ε = {number(row['epsilon'])}{end}"
    on = f" on {row['records']}" if len(known) > 1 else ""
    return f"All {row['releases']:,} training runs{on} together cost a record ε = {number(row['epsilon'])}{end}"


def answer(leads: dict[str, Lead], audit: Audit, claims: pl.DataFrame) -> list[str]:
    """Write a study's answer for the terminal, two lines of plain text; `leads` contains one per system."""
    several = len(leads) > 1
    sentences = [f"{system}: " * several + sentence(lead, audit).striptags() for system, lead in leads.items()]
    tests = f" ({plural(audit.tests, 'test')})" if audit.verdict == PASSED else ""
    tests = f" ({audit.failed} of {plural(audit.tests, 'test')})" if audit.verdict == FAILED else tests
    verdict = {PASSED: "Audit passed", FAILED: "AUDIT FAILED", UNTESTED: "Not audited"}[audit.verdict]
    return [" ".join(sentences), f"{verdict}{tests}. {counted(claims)}"]


def counted(claims: pl.DataFrame) -> str:
    """Describe the number of claims with each verdict."""
    verdicts = judged(claims)["verdict"].to_list()
    counts = [f"{n} {verdict.replace('depends', 'depend') if n > 1 else verdict}" for verdict, n in count(verdicts)]
    if not counts and verdicts:
        return f"{plural(len(verdicts), 'claim')} measured outside the paper's setting, and not judged."
    if not counts:
        return "No claim of a paper applies to this study."
    return f"Claims: {', '.join(counts)}."
