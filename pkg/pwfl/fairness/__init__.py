"""The system `utility_fair`'s policies, which several stages call: links, utility, deviation, noise of copies.

Equations are those of Alvi, Hong and Durrani, "Federated Learning Cost Disparity for IoT Devices".
"""
