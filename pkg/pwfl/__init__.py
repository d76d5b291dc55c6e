"""Reproducible simulation of private wireless federated learning."""
