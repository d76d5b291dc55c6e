"""Training of the system `anonymous_oac`: (2) of Hasircioglu and Gunduz, with other batches in each round."""

from pwfl.training import plain, trainings

parts = plain.parts_alike
trainer, batch_trainer = trainings.trainers(parts)
