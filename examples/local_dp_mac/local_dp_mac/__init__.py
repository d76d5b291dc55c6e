"""Wireless federated learning with local differential privacy (Seif, Tandon, Li, ISIT 2020), simplified."""

INTERFACE = 5  # the version of pwfl's interface that it uses (docs/upgrading.md, "Versions of the interface")
