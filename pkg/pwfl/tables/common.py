"""What the tables of several systems share."""

import dataframely as dy

AUDIT_STATUSES = ("consistent", "violated", "no_noise", "nobody_sends")


def key(description: str) -> dy.Int64:
    """A column that rows are keyed by."""
    return dy.Int64(primary_key=True, min=0, description=description)


def epsilon(description: str, nullable: bool = False) -> dy.Float64:
    """A column of guarantees: infinite where there is none."""
    return dy.Float64(nullable=nullable, min=0, allow_inf=True, description=description)


class Outcome(dy.Schema):
    """What each system's outcome says of a realization: its guarantee and its cost, under which terms."""

    realization = key("realization")
    samples = dy.Int64(nullable=False, min=1, description="training records of all users")
    rounds = dy.Int64(nullable=False, min=1)
    epsilon_exact = epsilon("of the worst record, after all rounds, at delta; null: nobody sends", nullable=True)
    epsilon_server = epsilon("the same against all that the system's own server receives", nullable=True)
    guaranteed = dy.Bool(
        nullable=False,
        description="epsilon_server is proved and needs no assumption: all bounds are enforced, users add noise, and "
        "nothing that the server could infer is taken to stay hidden",
    )
    delta = dy.Float64(nullable=False, min=0, max_exclusive=1)
    channel_uses = dy.Float64(nullable=True, min=0, description="symbols on air, all rounds; null: training decides")
    transmit_energy_j = dy.Float64(
        nullable=True, min=0, allow_inf=True, description="of all users, all rounds; null: no unit, or training decides"
    )
    link_budget = dy.String(nullable=False, description="what that energy is counted over: comparable within it")
    local_steps = dy.Float64(
        nullable=True, min=0, description="gradients of a user in a round that it takes part in, mean; null: training "
        "decides, or nobody takes part"
    )  # fmt: skip
    accuracy_of = dy.String(nullable=False, description="the model that accuracies are of")
    unit = dy.String(nullable=False)
    neighbouring_relation = dy.String(nullable=False)
    sampling = dy.String(nullable=False)
    observer = dy.String(nullable=False)
    guarantee = dy.String(nullable=False)


class Audit(dy.Schema):
    """What attacks on the training path found, beside what `account` states (`audit`)."""

    realization = key("the one whose worst record is worst off")
    observer = dy.String(primary_key=True, description="what is attacked")
    status = dy.Enum(AUDIT_STATUSES, nullable=False)
    canaries = dy.Int64(nullable=False, min=0, description="scores")
    delta = dy.Float64(primary_key=True, min=0, max_exclusive=1)
    epsilon_upper = epsilon("what is stated; null: nobody sends", nullable=True)
    epsilon_lower = epsilon("found, whatever the noise's law; null: no scores", nullable=True)
    epsilon_lower_gaussian = epsilon("found, if the noise is normal; null: no scores, or other noise", nullable=True)
    false_alarm = dy.Float64(nullable=False, min=0, max=1, description="probability that a lower bound is too high")
