"""Wireless federated learning with local differential privacy (Seif, Tandon, Li, ISIT 2020), simplified."""

INTERFACE = 5  # of pwfl (docs/upgrading.md, "Versions of the interface")
