"""Claims on transmission over the air, measured on a study; the required ranges are this example's choice."""

from functools import partial

import numpy as np

from pwfl.report.claims import Band, Claim, Comparison, Quantity, comparable, measure, scheme, statistic, value
from pwfl.report.measures import estimate, paired

AIR, ORTHOGONAL = scheme("over_the_air", "gaussian", "Over the air"), scheme("orthogonal", "gaussian", "Orthogonal")
K = value("network.devices")
SIZES = Comparison(lambda of: [each for each in comparable(of, "network.devices") if len(each) > 1], together=True)


def _slope(rho, devices, rhos, others):
    return estimate(lambda means: np.polyfit(np.log([devices, *others]), np.log(means), 1)[0], paired(rho, *rhos))


claim = partial(Claim, source="README.md", range_source="project")
CLAIMS = (
    claim(
        id="X-1",
        statement="At the same noise, the most exposed record loses less privacy over the air.",
        quantity=Quantity("epsilon", "record-level ε"),
        compare=AIR - ORTHOGONAL,
        required=Band(below=0),
    ),
    claim(
        id="X-2",
        statement="Over the air, zCDP ρ of the most exposed record falls as 1 / K.",
        quantity=Quantity("rho", "ρ"),
        compare=statistic("slope of its logarithm by log K", _slope, AIR, K, AIR.at(SIZES), K.at(SIZES)),
        required=Band(least=-1.1, most=-0.9),
    ),
)
claims = partial(measure, CLAIMS)
