"""Wireless federated learning in which the receiver's noise protects records (Liu and Simeone, JSAC 2021)."""

INTERFACE = 5  # the version of pwfl's interface that it uses (docs/upgrading.md, "Versions of the interface")
