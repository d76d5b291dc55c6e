"""Contents of the paper's study report: figures, settings, errata, and functions that implement equations."""

from pwfl.report.curves import distribution, over_rounds
from pwfl.report.paper import Mark, Panel, Paper, Setting
from pwfl.systems.multicell.claims import INTERPRETATIONS, PAPER_CLAIMS

OBJECTIVE, LEAKAGE = "objective (20) per sample", "leakage ρ of a scheduled user"
LARGEST = (
    Mark("F5-8", "x", "paper: largest 0.5 (OptSched+DP)", 0.5),
    Mark("F5-7", "x", "paper: largest 4 (RndSched)", 4.0),
)
ORDER = {"F4-1": "OptSched below RndSched", "F4-2": "OptSched+DP below OptSched"}
ACCURACY = {"F5-1": "OptSched above RndSched", "F5-3": "OptSched+DP slightly below OptSched"}
LOSS = {"F5-2": "OptSched below RndSched", "F5-4": "OptSched+DP slightly above OptSched"}
LEAKS = {
    "F5-7": "largest ρ of RndSched 4",
    "F5-8": "largest ρ of OptSched+DP 0.5",
    "F5-9": "OptSched+DP leaks less than OptSched",
    "S7-2": "OptSched leaks less than RndSched",
    "S7-4": "OptSched+DP leaks less than RndSched",
}


def _objective(name: str, setting: str, note: dict[str, str]) -> Panel:
    curves = distribution("realizations", "objective_per_sample")
    title = "Share of realizations below"
    return Panel(name=name, title=title, x=OBJECTIVE, setting=setting, curves=curves, percent=True, captions=note)


def _accuracy(name: str, setting: str, note: dict[str, str], marks: tuple[Mark, ...] = ()) -> Panel:
    curves = over_rounds("accuracy")
    return Panel(
        name=name,
        title="Test accuracy",
        x="round",
        setting=setting,
        curves=curves,
        percent=True,
        trained=True,
        captions=note,
        marks=marks,
    )


def _loss(name: str, setting: str, note: dict[str, str]) -> Panel:
    curves = over_rounds("loss")
    return Panel(
        name=name, title="Test loss", x="round", setting=setting, curves=curves, log_y=True, trained=True, captions=note
    )


def _leakage(name: str, setting: str, note: dict[str, str]) -> Panel:
    return Panel(
        name=name,
        title="Share of scheduled users below",
        x=LEAKAGE,
        setting=setting,
        curves=distribution("leakage", "rho", log=True),
        marks=LARGEST,
        log_x=True,
        percent=True,
        captions=note,
    )


PAPER = Paper(
    idea="Seven interfering cells have fewer resource blocks than users, so a scheduler decides who learns. The paper "
    "schedules users of many samples and good channels, then optimizes the privacy noise of those who are scheduled.",
    size="Table I, MNIST, 1000 realizations, 100 training runs of each scheme, as in the paper",
    claims=PAPER_CLAIMS,
    interpretations=INTERPRETATIONS,
    settings={
        "a": Setting("R = 5, γ = 10⁶", {"radio.resource_blocks": 5, "schedule.gamma": 1e6}),
        "b": Setting("R = 8, γ = 10⁷", {"radio.resource_blocks": 8, "schedule.gamma": 1e7}),
    },
    panels=(
        (
            _objective("4 (a)", "a", ORDER),
            _objective(
                "4 (b)",
                "b",
                ORDER
                | {
                    "F4-3": "OptSched+DP lower than at smaller γ",
                    "F4-4": "noise matters more",
                    "F4-5": "RndSched closer to OptSched",
                },
            ),
        ),
        (
            _accuracy(
                "5 (a)",
                "a",
                ACCURACY | {"F5-5": "OptSched+DP like RndSched", "S7-1": "6 points ahead"},
                (Mark("S7-1", "y", "paper: RndSched + 6 points", 0.06, "RndSched"),),
            ),
            _accuracy("5 (b)", "b", ACCURACY),
        ),
        (_loss("5 (c)", "a", LOSS | {"F5-6": "OptSched+DP like RndSched"}), _loss("5 (d)", "b", LOSS)),
        (
            _leakage("5 (e)", "a", LEAKS),
            _leakage("5 (f)", "b", LEAKS | {"F5-10": "OptSched leaks less than at smaller γ"}),
        ),
    ),
    not_drawn={
        "Fig. 1, 2": "Drawings of the system, without data.",
        "Fig. 3": "One random draw of users and channels; the figure topology.svg of each scenario shows another.",
        "The paper's curves": "Their data are not published. Only values that the text reports are marked.",
    },
    errata=(
        ("Algorithm 1", "t = 0 : T, which are T + 1 rounds", "T rounds, as (11) counts"),
        ("Table I", "N₀ = -174 dBm", "-174 dBm/Hz"),
        ("Sec. II, Theorem 1", "L for the clipping norm and for the smoothness", "two constants"),
        ("Sec. VII", "K = 100 users", "K is the number of samples elsewhere"),
    ),
    equations=(
        ("channel gain (17)", "radio.path_loss.link_gain", "topology (Fig. 3)"),
        ("start values, Algorithm 2", "systems.multicell.start_values.drawn", ""),
        (
            "cell program (30) to (34), Algorithm 3",
            "systems.multicell.schedule.optimal_blocks, systems.multicell.assignment.solve",
            "objective (Fig. 4)",
        ),
        ("powers (29), (35), rates (18)", "systems.multicell.power.powers, systems.multicell.interference.rates", ""),
        ("noise (36) to (39), Algorithm 4", "systems.multicell.optimal_noise.optimal_noise", "leakage (Fig. 5 e, f)"),
        ("rounds (5) to (9), Algorithm 1", "training.rounds.advance_function", "accuracy, loss (Fig. 5 a to d)"),
        ("leakage (11), total (19)", "systems.multicell.account.leakages", "leakage (Fig. 5 e, f)"),
        ("objective (20), constraint (21)", "systems.multicell.objective", "objective (Fig. 4)"),
        ("Theorem 1", "systems.multicell.account.convergence_bound", ""),
        ("whom a schedule selects, Sec. VI-B", "systems.multicell.account.selection", ""),
    ),
)
