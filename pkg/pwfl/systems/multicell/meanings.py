"""Meanings that several columns of the system `multicell` share."""

WORST = "of the most exposed user"
TIGHT = "bound on epsilon from rho by Renyi differential privacy"
CLASSIC = "bound on epsilon from rho by the formula rho + 2 sqrt(rho ln(1 / delta))"
RHO_WORST_CASE = "rho if one record can reverse its user's clipped mean (per_user clipping only)"
ALONE = "rho if all other users of the sum collude with the observer"
DITHERS_KNOWN = "epsilon if the observer knows the users' random rounding (integers only)"
