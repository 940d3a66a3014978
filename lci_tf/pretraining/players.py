"""What both kinds of training share: a step that updates C, F and D on all replicas, loss scaling, means of metrics."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from lci_tf.config.settings import Settings

Draws = dict[str, tf.Tensor]
Gradients = dict[str, list[tf.Tensor]]
Results = dict[str, tf.Tensor]


class Players(tf.keras.Model):
    """C, F and D, any of which may be missing, all updated in every step from the same forward pass.

    Subclasses have the equations.

    Attributes:
      labels: names of the classes that C tells apart.
      transforms: the transformations of the images; see `batches.draw`.
    """

    labels: tuple[str, ...] = ()
    classifier: tf.keras.Model
    inpainter: tf.keras.Model
    discriminator: tf.keras.Model

    def __init__(
        self,
        classifier: tf.keras.Model | None,
        inpainter: tf.keras.Model | None,
        discriminator: tf.keras.Model | None,
        transforms: Sequence[Any],
        settings: Settings,
    ):
        super().__init__()
        self.classifier, self.inpainter, self.discriminator = classifier, inpainter, discriminator
        self.transforms = transforms
        self._settings = settings

    def compile(self, classifier_optimizer=None, inpainter_optimizer=None, discriminator_optimizer=None, **kwargs):
        super().compile(**kwargs)
        self.distribute_reduction_method = "first"  # `train_step` already returns means over all replicas
        self.classifier_optimizer = classifier_optimizer
        self.inpainter_optimizer = inpainter_optimizer
        self.discriminator_optimizer = discriminator_optimizer
        self._names = [*self.reported(), *(f"gradient_norm/{player}" for player in self.players)]
        if self._scales_losses:
            self._names.append("loss_scale")
        # A single variable, not one metric each, whose reading would take a reduction over all workers in every step.
        self.sums = tf.Variable(
            tf.zeros([1 + len(self._names)]),
            trainable=False,
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
            name="sums",
        )
        """Number of steps since the last `forget`, and sums of all metrics over these; equal on all replicas."""

    def gradients(self, x: tf.Tensor, draws: Draws) -> tuple[Gradients, Results]:
        """The gradients of each player's loss over the global batch, by player, and this replica's metrics."""
        raise NotImplementedError

    def reported(self) -> list[str]:
        """The names of the metrics that `gradients` returns."""
        raise NotImplementedError

    def montages(self, x: tf.Tensor, draws: Draws) -> dict[str, np.ndarray]:
        """Pictures, by name, of what the training makes of a batch."""
        raise NotImplementedError

    def train_step(self, batch):
        """One update of every player.

        Args:
          batch: `"image"`: [n, s, s, 3] in [-1, 1], s = crop + margin; `"draws"`: see `batches.draw`.
        """
        gradients, results = self.gradients(batch["image"], batch["draws"])
        results = self._over_replicas(results)
        if self._scales_losses:
            results["loss_scale"] = self.optimizer_of(self.players[0]).loss_scale
        for player, values in gradients.items():
            norm = tf.linalg.global_norm(values)
            if self._scales_losses:  # with loss scaling, an overflow means a skipped step, not divergence
                norm = tf.where(tf.math.is_finite(norm), norm, 0.0)
            results[f"gradient_norm/{player}"] = norm
            variables = getattr(self, player).trainable_variables
            self.optimizer_of(player).apply_gradients(
                zip(values, variables, strict=True), experimental_aggregate_gradients=False
            )
        self.sums.assign_add(tf.stack([1.0, *(results[name] for name in self._names)]))
        return self.means()

    def means(self) -> Results:
        """Means of all metrics over the steps since the last `forget`."""
        steps, *sums = tf.unstack(self.sums)
        return {name: total / steps for name, total in zip(self._names, sums, strict=True)}

    def forget(self) -> None:
        """Restarts the means."""
        self.sums.assign(tf.zeros_like(self.sums))

    @property
    def players(self) -> list[str]:
        """Which of C, F and D are trained; F is trained only with D."""
        return ["classifier"] * bool(self.classifier) + ["discriminator", "inpainter"] * bool(self.discriminator)

    def optimizer_of(self, player: str) -> tf.keras.optimizers.Optimizer:
        return getattr(self, f"{player}_optimizer")

    @property
    def metrics(self):
        return []  # Keras must not reset the means when `fit` starts: a resumed run continues them

    @property
    def _scales_losses(self):
        return self._settings.mixed_precision == "float16"

    def _share(self):
        """The factor for this replica's losses, so that they sum to the mean over the global batch.

        In float16 it includes the loss scale, which all players share, as C's backward pass serves two of them.
        """
        share = 1.0 / tf.cast(self.distribute_strategy.num_replicas_in_sync, tf.float32)
        if not self._scales_losses:
            return share
        scaled = [self.optimizer_of(player).get_scaled_loss(share) for player in self.players]
        return scaled[0]

    def _summed(self, gradients):
        """Sums gradients over the replicas, and removes the loss scale."""
        gradients = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        if not self._scales_losses:
            return gradients
        # If gradients of one player overflow, all become NaN, so all optimisers skip the same steps and keep one scale.
        finite = tf.math.is_finite(sum(tf.reduce_sum(g) for values in gradients.values() for g in values))
        factor = tf.where(finite, 1.0, float("nan"))
        return {
            player: [g * factor for g in self.optimizer_of(player).get_unscaled_gradients(values)]
            for player, values in gradients.items()
        }

    def _over_replicas(self, results):
        """Means of metrics over all replicas, in one reduction, as they are small."""
        values = tf.stack(list(results.values()))
        values = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, values)
        return dict(zip(results, tf.unstack(values), strict=True))


def pairs(images: tf.Tensor) -> tf.Tensor:
    """From [n, p, p, 3] to [n/2, p, p, 6]: D judges two neighbours together (PacGAN), which encourages diversity."""
    return tf.concat([images[0::2], images[1::2]], axis=3)
