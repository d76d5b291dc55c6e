"""A small model around each of Keras's layers, as a function of a user's own that has the layer's name."""

from functools import partial

import keras
from keras import layers as L

ROW, SEQUENCE, IMAGE, VOLUME = (64,), (8, 8), (8, 8, 1), (4, 4, 4, 1)  # shapes of a record of 64 features
Wide = partial(L.Dense, 6)


def numbers(x):
    """Whole numbers from 0 to 15, of features from 0 to 1."""
    return L.Lambda(lambda x: keras.ops.cast(x * 15.0, "int32"))(x)


def made() -> dict:
    """By layer: the shape of a record, and what is made of records, with layers of its own."""
    return {
        "Activation": (ROW, lambda x: L.Activation("tanh")(Wide()(x))),
        "ELU": (ROW, lambda x: L.ELU()(Wide()(x))),
        "LeakyReLU": (ROW, lambda x: L.LeakyReLU()(Wide()(x))),
        "PReLU": (ROW, lambda x: L.PReLU()(Wide()(x))),
        "ReLU": (ROW, lambda x: L.ReLU()(Wide()(x))),
        "Softmax": (ROW, lambda x: L.Softmax()(Wide()(x))),
        "AdditiveAttention": (SEQUENCE, lambda x: L.AdditiveAttention()([L.Dense(4)(x), L.Dense(4)(x)])),
        "Attention": (SEQUENCE, lambda x: L.Attention(use_scale=True)([L.Dense(4)(x), L.Dense(4)(x)])),
        "GroupQueryAttention": (SEQUENCE, lambda x: L.GroupQueryAttention(4, 2, 1)(x, x)),
        "MultiHeadAttention": (SEQUENCE, lambda x: L.MultiHeadAttention(2, 4)(x, x)),
        "Conv1D": (SEQUENCE, L.Conv1D(3, 3)),
        "Conv1DTranspose": (SEQUENCE, L.Conv1DTranspose(3, 3)),
        "Conv2D": (IMAGE, L.Conv2D(3, 3)),
        "Conv2DTranspose": (IMAGE, L.Conv2DTranspose(3, 3)),
        "Conv3D": (VOLUME, L.Conv3D(3, 2)),
        "Conv3DTranspose": (VOLUME, L.Conv3DTranspose(3, 2)),
        "DepthwiseConv1D": (SEQUENCE, L.DepthwiseConv1D(3)),
        "DepthwiseConv2D": (IMAGE, L.DepthwiseConv2D(3)),
        "SeparableConv1D": (SEQUENCE, L.SeparableConv1D(3, 3)),
        "SeparableConv2D": (IMAGE, L.SeparableConv2D(3, 3)),
        "Dense": (ROW, L.Dense(6, activation="tanh")),
        "EinsumDense": (SEQUENCE, L.EinsumDense("abc,cd->abd", output_shape=(8, 5), bias_axes="d")),
        "Embedding": (ROW, lambda x: L.Embedding(16, 3)(numbers(x))),
        "ReversibleEmbedding": (ROW, lambda x: L.ReversibleEmbedding(16, 3)(numbers(x))),
        "Identity": (ROW, L.Identity()),
        "Lambda": (ROW, L.Lambda(lambda x: x * x)),
        "Masking": (SEQUENCE, lambda x: L.SimpleRNN(3)(L.Masking()(x))),
        "Add": (ROW, lambda x: L.Add()([Wide()(x), Wide()(x)])),
        "Average": (ROW, lambda x: L.Average()([Wide()(x), Wide()(x)])),
        "Concatenate": (ROW, lambda x: L.Concatenate()([Wide()(x), x])),
        "Dot": (SEQUENCE, lambda x: L.Dot(2)([L.Dense(4)(x), L.Dense(4)(x)])),
        "Maximum": (ROW, lambda x: L.Maximum()([Wide()(x), Wide()(x)])),
        "Minimum": (ROW, lambda x: L.Minimum()([Wide()(x), Wide()(x)])),
        "Multiply": (ROW, lambda x: L.Multiply()([Wide()(x), Wide()(x)])),
        "Subtract": (ROW, lambda x: L.Subtract()([Wide()(x), Wide()(x)])),
        "GroupNormalization": (SEQUENCE, lambda x: L.GroupNormalization(2)(L.Dense(4)(x))),
        "LayerNormalization": (ROW, lambda x: L.LayerNormalization()(Wide()(x))),
        "RMSNormalization": (ROW, lambda x: L.RMSNormalization()(Wide()(x))),
        "UnitNormalization": (ROW, lambda x: L.UnitNormalization()(Wide()(x))),
        "AdaptiveAveragePooling1D": (SEQUENCE, L.AdaptiveAveragePooling1D(4)),
        "AdaptiveAveragePooling2D": (IMAGE, L.AdaptiveAveragePooling2D(4)),
        "AdaptiveAveragePooling3D": (VOLUME, L.AdaptiveAveragePooling3D(2)),
        "AdaptiveMaxPooling1D": (SEQUENCE, L.AdaptiveMaxPooling1D(4)),
        "AdaptiveMaxPooling2D": (IMAGE, L.AdaptiveMaxPooling2D(4)),
        "AdaptiveMaxPooling3D": (VOLUME, L.AdaptiveMaxPooling3D(2)),
        "AveragePooling1D": (SEQUENCE, L.AveragePooling1D(2)),
        "AveragePooling2D": (IMAGE, lambda x: L.AveragePooling2D(2)(L.Conv2D(2, 3)(x))),
        "AveragePooling3D": (VOLUME, L.AveragePooling3D(2)),
        "GlobalAveragePooling1D": (SEQUENCE, L.GlobalAveragePooling1D()),
        "GlobalAveragePooling2D": (IMAGE, lambda x: L.GlobalAveragePooling2D()(L.Conv2D(2, 3)(x))),
        "GlobalAveragePooling3D": (VOLUME, lambda x: L.GlobalAveragePooling3D()(L.Conv3D(2, 2)(x))),
        "GlobalMaxPooling1D": (SEQUENCE, L.GlobalMaxPooling1D()),
        "GlobalMaxPooling2D": (IMAGE, lambda x: L.GlobalMaxPooling2D()(L.Conv2D(2, 3)(x))),
        "GlobalMaxPooling3D": (VOLUME, lambda x: L.GlobalMaxPooling3D()(L.Conv3D(2, 2)(x))),
        "MaxPooling1D": (SEQUENCE, L.MaxPooling1D(2)),
        "MaxPooling2D": (IMAGE, lambda x: L.MaxPooling2D(2)(L.Conv2D(2, 3)(x))),
        "MaxPooling3D": (VOLUME, lambda x: L.MaxPooling3D(2)(L.Conv3D(2, 2)(x))),
        "CategoryEncoding": (ROW, lambda x: L.CategoryEncoding(16, "count")(numbers(x))),
        "Discretization": (ROW, L.Discretization([0.2, 0.5])),
        "CenterCrop": (IMAGE, L.CenterCrop(4, 4)),
        "Resizing": (IMAGE, L.Resizing(4, 4)),
        "Solarization": (IMAGE, L.Solarization(value_range=(0, 1))),
        "AutoContrast": (IMAGE, L.AutoContrast(value_range=(0, 1))),
        "ContrastLimitedAdaptiveHistogramEqualization": (
            IMAGE,
            L.ContrastLimitedAdaptiveHistogramEqualization((0, 1), tile_grid_size=(2, 2)),
        ),
        "Normalization": (ROW, L.Normalization(mean=0.5, variance=0.1)),
        "Rescaling": (ROW, L.Rescaling(2.0)),
        "STFTSpectrogram": (SEQUENCE, L.STFTSpectrogram(frame_length=4, frame_step=2, fft_length=4)),
        "MelSpectrogram": (ROW, L.MelSpectrogram(fft_length=16, sequence_stride=8, num_mel_bins=4)),
        "Pipeline": (ROW, L.Pipeline([L.Rescaling(2.0)])),
        "HashedCrossing": (ROW, lambda x: L.HashedCrossing(4)([numbers(x)[:, 0], numbers(x)[:, 1]])),
        "Hashing": (ROW, lambda x: L.Hashing(4)(numbers(x))),
        "Cropping1D": (SEQUENCE, L.Cropping1D()),
        "Cropping2D": (IMAGE, L.Cropping2D()),
        "Cropping3D": (VOLUME, L.Cropping3D()),
        "Flatten": (SEQUENCE, L.Flatten()),
        "Permute": (SEQUENCE, L.Permute((2, 1))),
        "RepeatVector": (ROW, L.RepeatVector(2)),
        "Reshape": (ROW, L.Reshape([8, 8])),
        "UpSampling1D": (SEQUENCE, L.UpSampling1D(2)),
        "UpSampling2D": (IMAGE, lambda x: L.UpSampling2D(2)(L.Conv2D(2, 3)(x))),
        "UpSampling3D": (VOLUME, lambda x: L.UpSampling3D(2)(L.Conv3D(2, 2)(x))),
        "ZeroPadding1D": (SEQUENCE, L.ZeroPadding1D()),
        "ZeroPadding2D": (IMAGE, L.ZeroPadding2D()),
        "ZeroPadding3D": (VOLUME, L.ZeroPadding3D()),
        "Bidirectional": (SEQUENCE, L.Bidirectional(L.LSTM(2))),
        "ConvLSTM1D": (SEQUENCE, lambda x: L.ConvLSTM1D(2, 3)(L.Reshape([4, 4, 4])(x))),
        "ConvLSTM2D": (VOLUME, L.ConvLSTM2D(2, 3)),
        "ConvLSTM3D": (VOLUME, lambda x: L.ConvLSTM3D(2, 2)(L.Reshape([2, 4, 4, 2, 1])(x))),
        "GRU": (SEQUENCE, L.GRU(3)),
        "LSTM": (SEQUENCE, L.LSTM(3)),
        "RNN": (SEQUENCE, L.RNN(L.LSTMCell(3))),
        "GRUCell": (SEQUENCE, L.RNN(L.GRUCell(3))),
        "LSTMCell": (SEQUENCE, L.RNN(L.LSTMCell(3))),
        "SimpleRNN": (SEQUENCE, L.SimpleRNN(3)),
        "SimpleRNNCell": (SEQUENCE, L.RNN(L.SimpleRNNCell(3))),
        "StackedRNNCells": (SEQUENCE, L.RNN(L.StackedRNNCells([L.LSTMCell(3), L.GRUCell(2)]))),
        "TimeDistributed": (SEQUENCE, L.TimeDistributed(L.Dense(3))),
        "BatchNormalization": (ROW, L.BatchNormalization()),
        "SpectralNormalization": (ROW, L.SpectralNormalization(L.Dense(4))),
        "ActivityRegularization": (ROW, L.ActivityRegularization(0.1)),
        "AlphaDropout": (ROW, L.AlphaDropout(0.3)),
        "Dropout": (ROW, L.Dropout(0.3)),
        "GaussianDropout": (ROW, L.GaussianDropout(0.3)),
        "GaussianNoise": (ROW, L.GaussianNoise(0.3)),
        "SpatialDropout1D": (SEQUENCE, L.SpatialDropout1D(0.3)),
        "SpatialDropout2D": (IMAGE, L.SpatialDropout2D(0.3)),
        "SpatialDropout3D": (VOLUME, L.SpatialDropout3D(0.3)),
    }


MADE = made().keys()
SLOW = ("Bidirectional", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D", "GRU", "LSTM", "RNN", "GRUCell", "LSTMCell")
SLOW += ("Masking", "SimpleRNN", "SimpleRNNCell", "StackedRNNCells")  # TensorFlow traces a loop over steps
RANDOM = "draws random numbers in training, in .*; leave out dropout and noise"
REFUSED = {
    "BatchNormalization": "has state that training changes, in batch_normalization; leave out batch normalization",
    "SpectralNormalization": "has state that training changes, in spectral_normalization",
    **dict.fromkeys(("Solarization", "AlphaDropout", "Dropout", "GaussianDropout", "GaussianNoise"), RANDOM),
    **dict.fromkeys(("SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D"), RANDOM),
    "ActivityRegularization": "has regularizers, or losses of its own",
}
NO_LAYERS = ("Layer", "Wrapper", "InputLayer")  # but what layers are made from
# Of texts, of other frameworks, of saved models; random augmentation, which has the state of Dropout.
OTHERS = (
    "StringLookup",
    "IntegerLookup",
    "TextVectorization",
    "FlaxLayer",
    "JaxLayer",
    "TorchModuleWrapper",
    "TFSMLayer",
)
AUGMENTATION = ("AugMix", "RandAugment", "CutMix", "MixUp", "MaxNumBoundingBoxes")  # and Random*
BROKEN = ("Equalization",)  # Keras 3.15 makes no functional model of it


def __getattr__(name):
    if name not in MADE:
        raise AttributeError(name)

    def network(features, classes):
        shape, layer = made()[name]
        x = L.Input([features])
        y = keras.ops.cast(layer(L.Reshape(shape)(x)), "float32")
        return keras.Model(x, L.Dense(classes)(L.Flatten()(y if len(y.shape) > 1 else L.Reshape([1])(y))))

    return network
