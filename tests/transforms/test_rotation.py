import numpy as np

from lci_tf.transforms.rotation import Rotations


def test_equals_numpys(everywhere):
    images = np.random.default_rng(0).normal(size=[3, 7, 7, 3]).astype(np.float32)
    rotations = Rotations()
    assert rotations.labels == ("rot90", "rot180", "rot270") and rotations.of_identity
    draws = np.zeros([3, *rotations.draws], np.float32)
    for k in range(3):
        result = everywhere(lambda x, d, k=k: rotations(x, d)[k], images, draws)
        np.testing.assert_array_equal(result, np.rot90(images, k + 1, axes=(1, 2)))
