"""A model of a user's own, for audits: its layers are not those whose gradients are known how to turn around."""

import keras


def network(features, classes):
    side = int(features**0.5)
    layers = [keras.layers.Reshape([side, side, 1]), keras.layers.Conv2D(2, 3), keras.layers.Flatten()]
    ends = keras.layers.LayerNormalization(), keras.layers.Dense(classes)
    return keras.Sequential([keras.layers.Input([features]), *layers, *ends])
