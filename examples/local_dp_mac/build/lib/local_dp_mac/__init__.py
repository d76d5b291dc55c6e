"""Wireless federated learning with local differential privacy (Seif, Tandon, Li, ISIT 2020), simplified."""
