"""Absorbs batch normalisation into the weights, so that a network without it computes the same function."""

import numpy as np
import tensorflow as tf


def absorbed(network: tf.keras.Model) -> tf.keras.Model:
    """A copy of a network, in inference mode, whose batch normalisation is absorbed into the layers before it.

    With scale γ, offset β, mean μ and variance σ² of a channel, its weights w and bias b become w·γ/√(σ²+ε) and
    (b−μ)·γ/√(σ²+ε)+β. The batch normalisation is replaced by an identity of the same name.

    Batch normalisation that does not follow a convolution or dense layer is kept, with its statistics. All layers keep
    their names, including those of nested networks.
    """
    followers = _followers(network)
    norms = {name: after[0] for name, after in followers.items() if _can_absorb(network.get_layer(name), after)}
    gone = {norm.name for norm in norms.values()}

    def without_norm(layer):
        if isinstance(layer, tf.keras.Model):
            return absorbed(layer)
        if layer.name in gone:
            return tf.keras.layers.Identity(name=layer.name)
        config = layer.get_config()
        if layer.name in norms:
            config["use_bias"] = True
        if isinstance(layer, tf.keras.layers.BatchNormalization):
            config["trainable"] = False
        return layer.from_config(config)

    copy = tf.keras.models.clone_model(network, clone_function=without_norm)
    for layer in network.layers:
        if layer.name in norms:
            copy.get_layer(layer.name).set_weights(_absorb(layer, norms[layer.name]))
        elif layer.name not in gone and not isinstance(layer, tf.keras.Model):
            copy.get_layer(layer.name).set_weights(layer.get_weights())
    return copy


def _followers(network) -> dict[str, list[tf.keras.layers.Layer]]:
    """For each layer, the layers that use its output; if the network returns it, the network is among them."""
    followers: dict[str, list[tf.keras.layers.Layer]] = {layer.name: [] for layer in network.layers}
    inside = set(followers)
    for layer in network.layers:
        for node in layer.inbound_nodes:
            for before in tf.nest.flatten(node.inbound_layers):
                # Layers may be shared with other networks, and were called there too.
                if before.name in inside and network.get_layer(before.name) is before:
                    followers[before.name].append(layer)
    outputs = {id(output) for output in tf.nest.flatten(network.output)}
    for layer in network.layers:
        if isinstance(layer, tf.keras.layers.Conv2D | tf.keras.layers.Dense) and id(layer.output) in outputs:
            followers[layer.name].append(network)
    return followers


def _can_absorb(layer, followers):
    """Whether the only follower of a convolution or dense layer is batch normalisation of its channels."""
    has_kernel = isinstance(layer, tf.keras.layers.Conv2D | tf.keras.layers.Dense)
    # A transposed convolution has its filters on another axis of the kernel.
    has_kernel = has_kernel and not isinstance(layer, tf.keras.layers.Conv2DTranspose)
    if not has_kernel or len(followers) != 1 or layer.activation is not tf.keras.activations.linear:
        return False
    (norm,) = followers
    return isinstance(norm, tf.keras.layers.BatchNormalization) and list(norm.axis) == [len(layer.output.shape) - 1]


def _absorb(layer, norm) -> list[np.ndarray]:
    """The new kernel and bias, computed in float64."""
    kernel, *rest = (weight.astype(np.float64) for weight in layer.get_weights())
    bias = rest[0] if rest else np.zeros(kernel.shape[-1])
    # Batch normalisation may have no scale or offset.
    scale = norm.gamma.numpy().astype(np.float64) if norm.scale else 1.0
    offset = norm.beta.numpy().astype(np.float64) if norm.center else 0.0
    factor = scale / np.sqrt(norm.moving_variance.numpy().astype(np.float64) + norm.epsilon)
    return [kernel * factor, (bias - norm.moving_mean.numpy()) * factor + offset]
