"""Federated training, for all systems whose air is linear: learners, the rounds' graph, trainings, their audit.

Arrays of several realizations have these in a leading axis; those of one alone have not. The functions are the same for
both: they count axes from the last.
"""
