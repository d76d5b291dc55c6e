"""Federated training for all systems with a linear air interface: learners, the graph of rounds, training runs, audits.

Arrays of several realizations have the realization in axis 0; arrays of one alone have no such axis. The same functions
compute both, by counting axes from the last.

Start with `trainings` (from tables to `history`), then `rounds` (the graph of rounds, and what a `Learner` is) and the
learners: `gradients`, `local_sgd`, `sent`, `integers`. `trainable`, `dense` and `autodiff` compute gradients of models;
`batching` and `bands` have functions on arrays; `audit` and `audits` test a training run.
"""
