"""The paper of the system `random_orthogonalization` for the study report: figures, errata, functions of equations."""

import polars as pl

from pwfl.report.curves import empty, means
from pwfl.report.paper import Mark, Panel, Paper
from pwfl.scenario.values import value_of
from pwfl.systems.random_orthogonalization.claims import INTERPRETATIONS, PAIRS, PAPER_CLAIMS, SETTING

EPSILONS = {"epsilon_printed": "", "epsilon_gaussian": ", exact"}  # of one round: (6), and exact accounting


def _accuracy(contents: dict[str, dict]) -> pl.DataFrame:
    """Return mean test accuracy over rounds, by number of antennas."""
    return _over(contents, "history", "round", "accuracy")


def _leakage(contents: dict[str, dict]) -> pl.DataFrame:
    """Return epsilon of one round over numbers of users, by number of antennas: mean over users and realizations."""
    curves = [_over(contents, "leakage", "users", column, suffix) for column, suffix in EPSILONS.items()]
    return pl.concat(curves)


def _over(contents: dict[str, dict], table: str, x: str, y: str, suffix: str = "") -> pl.DataFrame:
    """Return means of a column with users' noise, in the paper's setting, with a series for each number of antennas."""
    frames = []
    for content in sorted(contents.values(), key=lambda item: item["scenario"].network.antennas):
        scenario = content["scenario"]
        private = [item.name for item in scenario.schemes if (item.scheduler, item.noise) == PAIRS["Private"]]
        known = table in content and y in content[table].columns
        if known and all(value_of(scenario, key) in values for key, values in SETTING.items()):
            rows = content[table].filter(pl.col("scheme").is_in(private)).select(pl.col(x, y).cast(pl.Float64))
            frames.append(rows.with_columns(scheme=pl.lit(f"M = {scenario.network.antennas}{suffix}")))
    rows = pl.concat(frames).filter(pl.col(y).is_finite()) if frames else pl.DataFrame()
    return empty() if rows.is_empty() else means(rows, x, y)


PAPER = Paper(
    idea="Users send noisy updates at once to a server with many antennas, which knows only the sum of their channels. "
    "Channels are nearly orthogonal, so projecting onto that sum leaves about the mean update, and the users' noise.",
    size="Noise, amplitude, clipping and δ of Fig. 2; K, M, MNIST and local training are this project's choice, as the "
    "paper does not state them",
    claims=PAPER_CLAIMS,
    interpretations=INTERPRETATIONS,
    panels=(
        (
            Panel(
                name="1",
                title="Test accuracy",
                x="round",
                curves=_accuracy,
                marks=(Mark("F1-1", "y", "paper: 89 %", 0.89),),
                percent=True,
                trained=True,
                captions={"F1-1": "89 % in less than 15 rounds"},
            ),
        ),
        (
            Panel(
                name="2",
                title="ε of a user in one round, mean over users, δ = 10⁻⁵",
                x="number of users K",
                curves=_leakage,
                log_y=True,
                captions={
                    "F2-1": "falls in K",
                    "F2-2": "rises in M",
                    "T1-1": "no user loses more than (6) says",
                },
            ),
        ),
    ),
    not_drawn={"The paper's curves": "Their data are not published. Only values that the text reports are marked."},
    errata=(
        ("(1)", "channels h_k are real and positive", "complex: (4) has conjugates, and relies on near-orthogonality"),
        ("(5)", "noise of pairs (k, j) as if independent", "user j's noise is the same in all pairs"),
        ("(6)", "‖h_k‖² / K as the weight of user k's update", "|Re(h_sᴴ h_k)| / K"),
        ("(6)", "√(2 log(1.25 / δ)) for any ε", "for ε < 1, where it is proved"),
    ),
    equations=(
        (
            "channels, inner products h_jᴴ h_k",
            "systems.random_orthogonalization.mimo.channels, systems.random_orthogonalization.mimo.inner_products, "
            "systems.random_orthogonalization.mimo.couplings",
            "couplings",
        ),
        ("communication blocks", "systems.random_orthogonalization.mimo.intervals", ""),
        ("local training, clipping", "training.local_sgd.updates, training.local_sgd.clip", "accuracy (Fig. 1)"),
        (
            "update (2) to (4), weights Re(h_sᴴ h_k) / K",
            "systems.random_orthogonalization.receive.weights, training.rounds.receive",
            "accuracy (Fig. 1)",
        ),
        ("power constraint P", "systems.random_orthogonalization.train.columns_function", "energy"),
        ("effective noise (5)", "systems.random_orthogonalization.mimo.effective_noise", ""),
        (
            "Theorem 1, (6)",
            "systems.random_orthogonalization.account.theorem_1, "
            "systems.random_orthogonalization.account.account_round",
            "leakage (Fig. 2)",
        ),
    ),
)
