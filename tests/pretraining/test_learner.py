"""The step of C, F and D: its gradients, its labels, who is trained against whom, and over how many replicas."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from lci_tf.config.names import TRANSFORMS
from lci_tf.config.settings import Settings
from lci_tf.pretraining import losses
from lci_tf.pretraining.learner import carries_autoencoded_patch
from lci_tf.pretraining.training import build
from lci_tf.transforms import Movement, Transformation
from lci_tf.transforms.cut import cut, points
from lci_tf.transforms.lookup import lookup_at


def assert_close(values, expected, relative):
    """To within `relative` of each variable's largest gradient."""
    assert len(values) == len(expected)
    for value, other in zip(values, expected, strict=True):
        largest = np.abs(other).max()
        np.testing.assert_allclose(value, other, rtol=0, atol=relative * largest + 1e-12)


def loss_of(player, learner, batch):
    """Each loss written down whole, as in the paper."""
    x, draws, settings = batch["image"], batch["draws"], learner._settings
    p = learner.inpaint(x, draws)
    stacks = learner.transformed(x, p, draws)
    labels = tf.repeat(tf.range(len(stacks)), len(x))
    ssl = losses.classification(learner.classifier(tf.concat(stacks, 0), training=True)["logits"], labels)
    if player == "classifier":
        return ssl
    e, r = p.original, p.inpainted
    pairs = [tf.concat([q[0::2], q[1::2]], axis=3) for q in (e, r)]
    real, fake = tf.split(learner.discriminator(tf.concat(pairs, 0), training=True), 2)
    if player == "discriminator":
        return tf.reduce_mean(tf.nn.relu(1 - real)) + tf.reduce_mean(tf.nn.relu(1 + fake))
    border = losses.border(r, e, learner.lci.mask)
    total = -tf.reduce_mean(fake) + 50 * border
    if settings.patch_autoencoding:
        total += 50 * tf.reduce_mean((p.autoencoded - e) ** 2)
    return total - ssl if settings.adversarial_classifier else total


@pytest.mark.parametrize(
    "ablation", [{}, {"adversarial_classifier": False}, {"patch_autoencoding": False}], ids=lambda a: str(list(a))
)
def test_the_shared_backward_pass_gives_each_loss_its_own_gradients(tiny_learner, batch_for, ablation):
    learner = tiny_learner(**ablation)
    batch = batch_for(learner)
    start = learner.get_weights()
    gradients, _ = learner.gradients(batch["image"], batch["draws"])
    assert set(gradients) == {"classifier", "inpainter", "discriminator"}
    for player, values in gradients.items():
        learner.set_weights(start)  # a call of D moves its power iteration
        with tf.GradientTape() as tape:
            loss = loss_of(player, learner, batch)
        alone = tape.gradient(loss, getattr(learner, player).trainable_variables)
        assert_close([v.numpy() for v in values], [v.numpy() for v in alone], 1e-5)


def test_what_c_adds_to_a_step_of_f_raises_the_loss_of_c(tiny_learner, batch_for):
    """The sign, and that the gradient reaches F at all."""
    with_c, without_c = tiny_learner(), tiny_learner(adversarial_classifier=False)
    batch = batch_for(with_c)
    start = with_c.get_weights()
    steps = []
    for learner in (with_c, without_c):
        learner.set_weights(start)
        steps.append([-g.numpy() for g in learner.gradients(batch["image"], batch["draws"])[0]["inpainter"]])
    with_c.set_weights(start)
    before = loss_of("classifier", with_c, batch)
    difference = [a - b for a, b in zip(*steps, strict=True)]
    norm = np.sqrt(sum(np.sum(d**2) for d in difference))
    for variable, change in zip(with_c.inpainter.trainable_variables, difference, strict=True):
        variable.assign_add(0.02 * change / norm)
    assert loss_of("classifier", with_c, batch) > before + 1e-4


def test_c_reaches_f_through_every_image_that_has_pixels_of_f(tiny_learner, batch_for):
    """Inpainted patches through LCI alone; autoencoded ones through identity and its rotations; warps through none."""
    learner = tiny_learner()
    x, draws = (batch_for(learner)[name] for name in ("image", "draws"))
    learner.classifier.get_layer("fc3").bias.assign(tf.range(6.0) / 3)
    with tf.GradientTape(persistent=True) as tape:
        patches = learner.inpaint(x, draws)
        images, labels = learner._stacked(learner.transformed(x, patches, draws))
        logits = learner.classifier(images, training=False)["logits"]  # so that no image has a say in another's
        loss_of_class = tf.split(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits), 6)
    carries = np.array([True, False] * 4)
    for name, loss in zip(learner.labels, loss_of_class, strict=True):
        gradient = tape.gradient(loss, patches.made)
        reached = np.zeros(16, bool) if gradient is None else np.any(gradient.numpy() != 0, axis=(1, 2, 3))
        autoencoded, inpainted = np.split(reached, 2)
        np.testing.assert_array_equal(inpainted, np.full(8, name == "lci"), err_msg=name)
        of_identity = name == "identity" or name.startswith("rot")
        np.testing.assert_array_equal(autoencoded, carries & of_identity, err_msg=name)


@pytest.mark.parametrize("ablation, reached", [({}, True), ({"patch_autoencoding": False}, False)])
def test_half_of_identity_and_rotated_images_carry_autoencoded_patches(tiny_learner, batch_for, ablation, reached):
    learner = tiny_learner(tilt=0.0, margin=0, transforms=("rot", "warp", "lci"), **ablation)
    batch = batch_for(learner, size=32)
    x, draws = batch["image"], batch["draws"]
    patches = learner.inpaint(x, draws)
    stacks = dict(zip(learner.labels, learner.transformed(x, patches, draws), strict=True))
    upright = {"identity": stacks["identity"]}
    upright |= {f"rot{90 * k}": tf.image.rot90(stacks[f"rot{90 * k}"], 4 - k) for k in (1, 2, 3)}
    for name, images in upright.items():
        changed = np.any(images.numpy() != x.numpy(), axis=(1, 2, 3))
        np.testing.assert_array_equal(changed, [reached, False] * 4, err_msg=name)
    if reached:
        expected = learner.lci.paste(x, patches.autoencoded, patches.places)
        np.testing.assert_array_equal(stacks["identity"][0::2], expected[0::2])
    np.testing.assert_array_equal(stacks["lci"], learner.lci.paste(x, patches.inpainted, patches.places))
    np.testing.assert_array_equal(carries_autoencoded_patch(x), [True, False] * 4)


SUBSETS = [names for k in (1, 2, 3) for names in itertools.permutations(TRANSFORMS, k)]


@pytest.mark.parametrize("names", SUBSETS, ids="+".join)
def test_every_choice_and_order_of_transformations(tiny_learner, batch_for, names):
    """Labels without gaps in the order given, images of the class that they say, and nothing built without need."""
    learner = tiny_learner(transforms=names, margin=0, tilt=0.0)
    made = {"rot": ("rot90", "rot180", "rot270"), "warp": ("warp",), "lci": ("lci",)}
    assert learner.labels == ("identity", *itertools.chain(*(made[name] for name in names)))
    assert learner.classifier.output["logits"].shape[1] == len(learner.labels)
    for player in (learner.inpainter, learner.discriminator):
        assert (player is not None) == ("lci" in names)
    batch = batch_for(learner, size=32)
    patches = learner.inpaint(batch["image"], batch["draws"])
    images, labels = learner._stacked(learner.transformed(batch["image"], patches, batch["draws"]))
    np.testing.assert_array_equal(labels, np.repeat(np.arange(len(learner.labels)), 8))
    x = batch["image"].numpy()
    of_class = dict(zip(learner.labels, images.numpy().reshape([-1, 8, 32, 32, 3]), strict=True))
    # Every second image has no autoencoded patch, whose rotations are those of the image.
    np.testing.assert_array_equal(of_class["identity"][1::2], x[1::2])
    if "rot" in names:
        for k in (1, 2, 3):
            np.testing.assert_array_equal(of_class[f"rot{90 * k}"][1::2], np.rot90(x[1::2], k, axes=(1, 2)))
    if "warp" in names:
        (warp,) = [transform for transform in learner.transforms if transform.labels == ("warp",)]
        draws = batch["draws"][f"transform_{names.index('warp')}"]
        np.testing.assert_array_equal(of_class["warp"], Movement.__call__(warp, x, draws)[0])
    if "lci" in names:
        np.testing.assert_array_equal(of_class["lci"], learner.lci.paste(x, patches.inpainted, patches.places))
    if names == ("lci",):
        identity = [name for name in learner.means() if name.startswith("accuracy/identity")]
        assert identity == ["accuracy/identity_untouched", "accuracy/identity_autoencoded"]


@pytest.mark.parametrize("tilt", [0.0, 0.07])
def test_every_class_is_made_with_its_margin_and_then_cut_at_a_different_place(tiny_learner, batch_for, tilt):
    learner = tiny_learner(tilt=tilt, resample="each")
    batch = batch_for(learner)
    x, draws = batch["image"], batch["draws"]
    patches = learner.inpaint(x, draws)
    identity = x.numpy().copy()
    identity[::2] = learner.lci.paste(x, patches.autoencoded, patches.places)[::2]
    made = {"identity": identity}
    made |= {f"rot{90 * k}": np.rot90(identity, k, axes=(1, 2)) for k in (1, 2, 3)}
    made["warp"] = learner.transforms[1](x, draws["transform_1"])[0]
    made["lci"] = learner.lci.paste(x, patches.inpainted, patches.places)
    assert draws["cut"].shape == [8, 6, 4] and len(np.unique(draws["cut"])) == 8 * 6 * 4
    found = dict(zip(learner.labels, learner.transformed(x, patches, draws), strict=True))
    for label, name in enumerate(learner.labels):
        expected = cut(tf.constant(made[name]), draws["cut"][:, label], 32, tilt)
        np.testing.assert_allclose(found[name], expected, atol=1e-6, err_msg=name)


def identity_and_lci(learner, batch):
    """Both with their margin."""
    patches = learner.inpaint(batch["image"], batch["draws"])
    identity = batch["image"].numpy().copy()
    identity[::2] = learner.lci.paste(batch["image"], patches.autoencoded, patches.places)[::2]
    return patches, identity, learner.lci.paste(batch["image"], patches.inpainted, patches.places)


def test_with_resample_once_every_class_is_interpolated_once_at_its_own_tilted_place(tiny_learner, batch_for):
    learner = tiny_learner(resample="once", tilt=0.07)
    batch = batch_for(learner)
    x, draws = batch["image"], batch["draws"]
    patches, identity, lci = identity_and_lci(learner, batch)
    found = dict(zip(learner.labels, learner.transformed(x, patches, draws), strict=True))
    tilted = draws["cut"].numpy() * np.float32([1, 1, 0, 1])  # whatever their third draw
    for name, made in {"identity": identity, "lci": lci}.items():
        expected = cut(tf.constant(made), tilted[:, learner.labels.index(name)], 32, 0.07)
        np.testing.assert_allclose(found[name], expected, atol=1e-6, err_msg=name)
    for k in (1, 2, 3):
        np.testing.assert_array_equal(found[f"rot{90 * k}"], np.rot90(found["identity"], k, axes=(1, 2)))
    rows, columns = points(tilted[:, learner.labels.index("warp")], 40, 32, 0.07)
    (at,) = learner.transforms[1].move(rows, columns, draws["transform_1"])
    np.testing.assert_allclose(found["warp"], lookup_at(x, *at), atol=1e-6)


class Halves(Transformation):
    labels = ("half", "quarter")

    def __call__(self, images, draws):
        assert images.shape[1] == 40, "it is given images with their margin"
        return [images / 2, images / 4]


def test_with_resample_once_the_users_own_images_are_tilted_by_their_cut(tiny_learner, batch_for):
    learner = tiny_learner(resample="once", tilt=0.07, transforms=("rot", f"{__name__}:Halves"))
    batch = batch_for(learner)
    x, draws = batch["image"], batch["draws"]
    found = learner.transformed(x, None, draws)
    tilted = draws["cut"].numpy() * np.float32([1, 1, 0, 1])
    for label, share in ((4, 2), (5, 4)):
        np.testing.assert_allclose(found[label], cut(x / share, tilted[:, label], 32, 0.07), atol=1e-6)


def test_the_authors_tilt_untouched_identity_images_and_turn_what_was_cut(tiny_learner, batch_for):
    learner = tiny_learner(resample="authors", tilt=0.07)
    batch = batch_for(learner)
    x, draws = batch["image"], batch["draws"]
    patches, identity, lci = identity_and_lci(learner, batch)
    found = dict(zip(learner.labels, learner.transformed(x, patches, draws), strict=True))
    as_theirs = draws["cut"].numpy()
    as_theirs[:, 0, 2] = [0.9, 0.1] * 4  # every second image carries an autoencoded patch, and is not tilted
    for name, made in {
        "identity": identity,
        "warp": learner.transforms[1](x, draws["transform_1"])[0],
        "lci": lci,
    }.items():
        expected = cut(tf.constant(made), as_theirs[:, learner.labels.index(name)], 32, 0.07)
        np.testing.assert_allclose(found[name], expected, atol=1e-6, err_msg=name)
    for k in (1, 2, 3):
        np.testing.assert_array_equal(found[f"rot{90 * k}"], np.rot90(found["identity"], k, axes=(1, 2)))


@pytest.mark.parametrize("resample", Settings.__dataclass_fields__["resample"].metadata["choices"])
def test_gradients_reach_f_through_the_lookup(tiny_learner, batch_for, resample):
    """What C sees is linear in F's pixels, so that differences of any size are exact but for rounding."""
    learner = tiny_learner(resample=resample, tilt=0.07)
    batch = batch_for(learner)
    x, draws = batch["image"], batch["draws"]
    patches = learner.inpaint(x, draws)
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=[8, 32, 32, 3]).astype(np.float32) for _ in learner.labels]

    def total(autoencoded, inpainted):
        stacks = learner.transformed(x, patches._replace(autoencoded=autoencoded, inpainted=inpainted), draws)
        return tf.add_n([tf.reduce_sum(w * stack) for w, stack in zip(weights, stacks, strict=True)])

    given = [patches.autoencoded, patches.inpainted]
    with tf.GradientTape() as tape:
        tape.watch(given)
        value = total(*given)
    for i, gradient in enumerate(tape.gradient(value, given)):
        step = rng.normal(size=gradient.shape).astype(np.float32)
        moved = [values + step if i == j else values for j, values in enumerate(given)]
        assert float(total(*moved) - value) == pytest.approx(np.vdot(gradient, step), rel=1e-3)


class Forgetful(Transformation):
    labels = ("one", "two")

    def __call__(self, images, draws):
        return [images]


def test_a_transformation_that_makes_fewer_classes_than_it_names(tiny_learner, batch_for, refusal):
    learner = tiny_learner(transforms=(f"{__name__}:Forgetful",))
    batch = batch_for(learner)
    message = refusal(learner.montages, batch["image"], batch["draws"])
    assert message.startswith("--transforms: Forgetful made 1 batches of images for its 2 labels (one, two)")


def test_a_frozen_inpainter_is_not_trained_and_c_is(tiny_learner, batch_for):
    learner = tiny_learner(inpainter="somewhere")
    assert learner.discriminator is None and learner.players == ["classifier"]
    before = learner.inpainter.get_weights()
    tf.function(learner.train_step)(batch_for(learner))
    for old, new in zip(before, learner.inpainter.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)  # moving averages included


def test_the_inpainter_is_trained_alone(tiny_learner, batch_for):
    learner = tiny_learner(inpainter_only=True)
    assert learner.classifier is None and learner.players == ["discriminator", "inpainter"]
    values = tf.function(learner.train_step)(batch_for(learner))
    assert {"loss/discriminator", "loss/border", "gradient_norm/inpainter"} <= set(values)


def test_each_class_has_its_accuracy(tiny_learner, batch_for):
    """Those of the logits that C gives, counted one by one."""
    learner = tiny_learner()
    rng = np.random.default_rng(0)
    logits = rng.normal(size=[48, 6]).astype(np.float32)
    labels = np.repeat(np.arange(6), 8)
    found = learner._accuracies(tf.constant(logits), tf.constant(labels))
    for label, name in enumerate(learner.labels[1:], 1):
        expected = np.mean([logits[8 * label + i].argmax() == label for i in range(8)])
        assert float(found[f"accuracy/{name}"]) == pytest.approx(expected)
    for name, first in (("identity_autoencoded", 0), ("identity_untouched", 1)):
        expected = np.mean(logits[first:8:2].argmax(axis=1) == 0)
        assert float(found[f"accuracy/{name}"]) == pytest.approx(expected)


def with_fixed_normalisation(learner):
    """Batch statistics are a replica's own; moving ones are the same for all."""
    for player in (learner.classifier, learner.inpainter):
        for layer in player._flatten_layers() if player else ():
            if isinstance(layer, tf.keras.layers.BatchNormalization):
                layer.trainable = False
    return learner


@pytest.mark.parametrize(
    "mode, transforms", [("fixed", "rot,warp,lci"), ("sync_bn", "rot,warp,lci"), ("fixed", "tiles")]
)
def test_two_replicas_have_the_gradients_of_one(tiny_plan, batch_for, two_replicas, mode, transforms):
    margin = 0 if transforms == "tiles" else 8
    plan = tiny_plan(sync_bn=mode == "sync_bn", transforms=tuple(transforms.split(",")), margin=margin)
    found = []
    for strategy in (tf.distribute.MirroredStrategy(["CPU:0"]), two_replicas):
        with strategy.scope():
            learner = build(plan)
        if learner.classifier:
            # A new C says the same of every class, which makes for gradients of nothing but rounding.
            learner.classifier.get_layer("fc3").bias.assign(tf.range(6.0) / 3)
        if mode == "fixed":
            with_fixed_normalisation(learner)
        batch = batch_for(learner, size=32 + margin)
        part = 8 // strategy.num_replicas_in_sync

        def part_of(context, batch=batch, part=part):
            first = context.replica_id_in_sync_group * part
            return tf.nest.map_structure(lambda rows: rows[first : first + part], batch)

        parts = strategy.experimental_distribute_values_from_function(part_of)
        step = tf.function(lambda parts, s=strategy, g=learner.gradients: s.run(
            lambda b: g(b["image"], b["draws"])[0], args=(parts,)))  # fmt: skip
        per_replica = step(parts)
        found.append({
            player: [strategy.experimental_local_results(v)[-1].numpy() for v in values]
            for player, values in per_replica.items()
        })  # fmt: skip
    for player, values in found[1].items():
        # In the biases of a D that knows nothing yet, natural and filled images cancel but for a hundredth.
        assert_close(values, found[0][player], 1e-3 if transforms == "tiles" else 1e-5)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_half_precision_keeps_losses_and_weights_in_float32(tiny_learner, batch_for, precision):
    learner = tiny_learner(mixed_precision=precision)
    assert learner.classifier.get_layer("features").get_layer("conv2").compute_dtype == precision
    assert all(v.dtype == tf.float32 for v in learner.trainable_variables)
    batch = batch_for(learner)
    exact = tiny_learner()
    for player in learner.players:
        getattr(exact, player).set_weights(getattr(learner, player).get_weights())
    if precision == "float16":
        for player in learner.players:  # it begins so high that the first steps overflow
            learner.optimizer_of(player)._loss_scale._current_loss_scale.assign(2.0**9)
    gradients, results = learner.gradients(batch["image"], batch["draws"])
    expected, exact_results = exact.gradients(batch["image"], batch["draws"])
    assert all(value.dtype == tf.float32 and np.isfinite(value) for value in results.values())
    assert float(results["loss/classifier"]) == pytest.approx(float(exact_results["loss/classifier"]), rel=1e-2)
    for player, values in gradients.items():
        a = np.concatenate([v.numpy().ravel() for v in values])
        b = np.concatenate([v.numpy().ravel() for v in expected[player]])
        # Ten layers that round to eight bits, each; what is wrong in kind would be near 0.
        assert a @ b / np.linalg.norm(a) / np.linalg.norm(b) > 0.95, player
        # And whatever the losses were scaled by on the way, the gradients are not.
        assert np.linalg.norm(a) == pytest.approx(np.linalg.norm(b), rel=0.1), player


def test_float16_leaves_out_a_step_that_overflows_for_all_players_and_halves_the_one_scale(tiny_learner, batch_for):
    learner = tiny_learner(mixed_precision="float16")
    step = tf.function(learner.train_step)
    batch = batch_for(learner)
    for player in learner.players:
        learner.optimizer_of(player)._loss_scale._current_loss_scale.assign(1e30)
    before = [w.numpy() for player in learner.players for w in getattr(learner, player).trainable_variables]
    reported = step(batch)
    assert all(np.isfinite(value) for value in reported.values())  # or the run would be taken for a diverging one
    after = [w.numpy() for player in learner.players for w in getattr(learner, player).trainable_variables]
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)
    assert {float(learner.optimizer_of(player).loss_scale) for player in learner.players} == {np.float32(5e29)}
