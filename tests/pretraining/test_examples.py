import numpy as np
import pytest

from lci_tf.pretraining import training
from lci_tf.pretraining.training import checkpointed
from lci_tf.reporting import examples
from lci_tf.runs import Run
from lci_tf.runs.checkpoints import Checkpoints


@pytest.mark.parametrize("margin", [8, 7, 0])
def test_cut_from_the_middle_classes_can_be_compared(tiny_learner, batch_for, margin):
    learner = tiny_learner(transforms=("rot",), margin=margin)
    batch = examples.centred(batch_for(learner, size=32 + margin))
    shown = learner.examples(batch["image"], batch["draws"])
    original, edge = examples.middle(shown.images, 32)
    np.testing.assert_array_equal(shown.transformed["identity"], original)
    assert edge == (margin + 1) // 2
    if margin % 2 == 0:
        np.testing.assert_array_equal(shown.transformed["rot180"], original[:, ::-1, ::-1])
    assert shown.patches is None and shown.inpainted is None


def test_patches_are_where_they_are_said_to_be(tiny_learner, batch_for):
    learner = tiny_learner()
    batch = batch_for(learner)
    shown = learner.examples(batch["image"], batch["draws"])
    assert list(shown.transformed) == list(learner.labels)
    for image, inpainted, patch, (top, left) in zip(
        shown.images, shown.inpainted, shown.patches.inpainted, shown.patches.places, strict=True
    ):
        changed = image.copy()
        changed[top : top + 16, left : left + 16] = patch
        np.testing.assert_array_equal(inpainted, changed)


@pytest.mark.parametrize(
    "changes", [{}, {"inpainter_only": True}, {"transforms": ("warp",), "mixed_precision": "bfloat16"}]
)
def test_a_learner_is_restored_from_its_checkpoint(tiny_plan, tmp_path, changes):
    plan = tiny_plan(**changes)
    learner = training.build(plan)
    run = Run(tmp_path / "run")
    run.begin({**vars(plan.settings), "dataset": "stl10", "inpainter_only": plan.inpainter_only})
    checkpoints = Checkpoints(run, checkpointed(learner))
    checkpoints.save(3)
    restored = training.restored(checkpoints.latest)
    for name in ("classifier", "inpainter"):
        saved, loaded = getattr(learner, name), getattr(restored, name)
        assert (saved is None) == (loaded is None)
        if saved is not None:
            for one, other in zip(saved.weights, loaded.weights, strict=True):
                np.testing.assert_array_equal(one, other)
    assert restored.labels == learner.labels
