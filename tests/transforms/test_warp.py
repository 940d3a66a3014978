import numpy as np
import pytest
import tensorflow as tf
from scipy.interpolate import RBFInterpolator

from lci_tf.data.sets import synthetic
from lci_tf.transforms import Movement
from lci_tf.transforms.cut import points
from lci_tf.transforms.warp import PolyharmonicWarp, Warp, _flow_of_unit_shifts


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="module")
def scenes():
    return (synthetic.draw(np.arange(4), seed=3) / 127.5 - 1).astype(np.float32)


def grid_points(size, grid, count):
    points = np.linspace(0, size - 1, grid)
    return np.stack(np.meshgrid(points, points, indexing="ij"), axis=-1).reshape([1, -1, 2]).repeat(count, axis=0)


def random_shifts(rng, size, grid, count=4):
    return rng.uniform(-0.1 * size, 0.1 * size, [count, grid**2, 2])


@pytest.mark.parametrize("size", [32, 64, 80, 128])
@pytest.mark.parametrize("grid", [3, 4, 5])
def test_equals_tensorflow_addons(rng, scenes, size, grid):
    addons = pytest.importorskip("tensorflow_addons", reason="there is none for this Python")
    images = tf.image.resize(scenes, [size, size])
    points, shifts = grid_points(size, grid, 4), random_shifts(rng, size, grid)
    ours = PolyharmonicWarp(grid).warp(images, shifts.astype(np.float32))

    def theirs(dtype):
        arguments = (tf.cast(a, dtype) for a in (images, points + shifts, points))
        return addons.image.sparse_image_warp(*arguments)[0]

    # A thousandth of the grey levels' range, which is 2; most of that is their solver's rounding.
    np.testing.assert_allclose(ours, theirs(tf.float32), atol=2e-3)
    np.testing.assert_allclose(ours, theirs(tf.float64), atol=1e-4)


def test_control_points_show_what_was_at_their_shifted_places(rng):
    """Of an image that shows its own coordinates, not square."""
    rows, columns = np.meshgrid(np.arange(33), np.arange(65), indexing="ij")
    image = np.stack([rows, columns], axis=-1)[np.newaxis].astype(np.float32)
    shifts = rng.uniform(-2, 2, [1, 9, 2]).astype(np.float32)
    warped = PolyharmonicWarp(3).warp(image, shifts)
    for i, (row, column) in enumerate((r, c) for r in (0, 16, 32) for c in (0, 32, 64)):
        expected = np.clip([row, column] + shifts[0, i], 0, [32, 64])
        np.testing.assert_allclose(warped[0, row, column], expected, atol=1e-4)


def test_no_shift_is_the_identity(scenes):
    np.testing.assert_array_equal(PolyharmonicWarp(4).warp(scenes, np.zeros([4, 16, 2], np.float32)), scenes)


@pytest.mark.parametrize("random_points", [False, True])
def test_the_transformation_is_a_function_of_its_draws(rng, scenes, everywhere, random_points):
    scenes = scenes[:, :32, :32]
    warp = Warp(4, 0.1, 32, random_points)
    draws = rng.uniform(size=[4, *warp.draws]).astype(np.float32)
    result = everywhere(lambda x, d: warp(x, d)[0], scenes, draws, atol=1e-4)
    assert result.shape == scenes.shape and np.abs(result - scenes).mean() > 0.01
    reversed_batch = warp(tf.constant(scenes[::-1]), draws[::-1])[0]
    np.testing.assert_allclose(reversed_batch[::-1], result, atol=1e-4)


@pytest.mark.parametrize("where", ["graph", "data set"])
def test_the_layer_may_be_used_first_in_a_graph(scenes, where):
    """What is computed once must not belong to the graph in which it was first asked for."""
    _flow_of_unit_shifts.cache_clear()
    layer = PolyharmonicWarp(grid=3)
    if where == "graph":
        warped = tf.function(layer)(scenes)
    else:
        warped = next(iter(tf.data.Dataset.from_tensors(scenes).map(layer)))
    assert np.abs(warped - scenes).mean() > 0.01
    assert np.abs(layer(scenes) - scenes).mean() > 0.01


def test_draws_span_the_shifts(scenes):
    warp = Warp(2, 0.1, 96)
    draws = np.zeros([4, 4, 2], np.float32)
    up = PolyharmonicWarp(2).warp(scenes, np.full([4, 4, 2], -9.6, np.float32))
    np.testing.assert_allclose(warp(scenes, draws)[0], up, atol=1e-5)
    np.testing.assert_allclose(warp(scenes, draws + 0.5)[0], scenes, atol=1e-5)


def test_random_points_are_anywhere_in_the_image(rng, scenes):
    """The authors' variant; tensorflow-addons solves its system in float32."""
    addons = pytest.importorskip("tensorflow_addons", reason="there is none for this Python")
    warp = Warp(3, 0.05, 96, random_points=True)
    assert warp.draws == (9, 4)
    draws = rng.uniform(size=[4, 9, 4]).astype(np.float32)
    points, shifts = draws[..., 2:] * 95, (2 * draws[..., :2] - 1) * 0.05 * 96
    theirs = addons.image.sparse_image_warp(scenes, points + shifts, points)[0]
    difference = np.abs(warp(scenes, draws)[0] - theirs)
    assert np.quantile(difference, 0.999) < 4e-3


def tilted_cut_in_numpy(draws, size, crop_size, tilt):
    """Rows and columns of a tilted cut's pixels, float64 [crop, crop, 2], from its draws; see `cut.points`."""
    angle = (2 * draws[3] - 1) * tilt * np.pi
    cos, sin = np.cos(angle), np.sin(angle)
    centre = (size - 1) / 2 + (draws[:2] - 0.5) * (size - crop_size * (cos + abs(sin)))
    from_centre = np.stack(np.meshgrid(*2 * [np.arange(crop_size) - (crop_size - 1) / 2], indexing="ij"), axis=-1)
    return centre + from_centre @ [[cos, sin], [-sin, cos]]


@pytest.mark.parametrize("random_points", [False, True])
def test_composed_with_a_tilted_cut_the_points_are_those_of_the_spline(rng, random_points):
    """Of SciPy's thin plate, at the points of the cut, both in float64."""
    warp = Warp(4, 0.1, 80, random_points)
    draws, cuts = (rng.uniform(size=[4, *shape]).astype(np.float32) for shape in (warp.draws, (4,)))
    rows, columns = points(cuts, 80, 64, 0.07, tf.fill([4], True))
    ((moved_rows, moved_columns),) = warp.move(rows, columns, draws)
    for i, (drawn, of_cut) in enumerate(zip(draws.astype(np.float64), cuts.astype(np.float64), strict=True)):
        known = drawn[:, 2:] * 79 if random_points else grid_points(80, 4, 1)[0]
        flow = RBFInterpolator(known, (2 * drawn[:, :2] - 1) * 8, kernel="thin_plate_spline")
        at = tilted_cut_in_numpy(of_cut, 80, 64, 0.07)
        expected = at + flow(at.reshape([-1, 2])).reshape([64, 64, 2])
        np.testing.assert_allclose(np.stack([moved_rows[i], moved_columns[i]], axis=-1), expected, atol=1e-3)


def test_at_its_own_pixels_it_moves_as_it_warps(rng, scenes):
    warp = Warp(4, 0.1, 96)
    draws = rng.uniform(size=[4, *warp.draws]).astype(np.float32)
    difference = np.abs(Movement.__call__(warp, tf.constant(scenes), draws)[0] - warp(tf.constant(scenes), draws)[0])
    assert np.quantile(difference, 0.999) < 1e-4


def test_the_layer_warps_in_training_only(scenes):
    layer = PolyharmonicWarp(grid=3, strength=0.2)
    np.testing.assert_array_equal(layer(scenes, training=False), scenes)
    tf.random.set_seed(0)
    once, twice = layer(scenes, training=True), layer(scenes, training=True)
    assert np.abs(once - scenes).mean() > 0.01 and np.abs(once - twice).mean() > 0.01
    tf.random.set_seed(0)
    np.testing.assert_array_equal(layer(scenes), once)


def test_the_layers_shifts_are_within_its_strength():
    rows, columns = np.meshgrid(np.arange(100), np.arange(50), indexing="ij")
    image = np.stack([rows, columns], axis=-1)[np.newaxis].repeat(300, axis=0).astype(np.float32)
    warped = PolyharmonicWarp(grid=3, strength=0.1)(image).numpy()
    # No pixel is a control point in the middle: its four neighbours' mean is near it.
    shift = warped[:, 49:51, 24:26].mean(axis=(1, 2)) - [49.5, 24.5]
    assert (np.abs(shift).max(axis=0) < [10.5, 5.5]).all() and (np.abs(shift).max(axis=0) > [9, 4.5]).all()


def test_the_layer_is_part_of_a_model_that_can_be_saved(scenes, tmp_path):
    model = tf.keras.Sequential([tf.keras.Input([96, 96, 3]), PolyharmonicWarp(grid=3, strength=0.05)])
    model.save(tmp_path / "model.keras")
    layer = tf.keras.models.load_model(tmp_path / "model.keras").layers[-1]
    assert (layer.grid, layer.strength) == (3, 0.05)
    np.testing.assert_array_equal(model(scenes, training=False), scenes)
    assert np.abs(model(scenes, training=True) - scenes).mean() > 1e-3


def test_the_layer_keeps_float32_whatever_the_policy(scenes):
    layer = PolyharmonicWarp(dtype="mixed_float16")
    assert layer(scenes, training=True).dtype == tf.float32
    np.testing.assert_array_equal(layer(scenes, training=False), scenes)


def test_a_grid_without_corners_is_refused():
    with pytest.raises(ValueError, match="grid=1"):
        PolyharmonicWarp(grid=1)


def test_compiles(rng, scenes):
    shifts = random_shifts(rng, 96, 4).astype(np.float32)
    layer = PolyharmonicWarp(4)
    compiled = tf.function(layer.warp, jit_compile=True)(scenes, shifts)
    np.testing.assert_allclose(compiled, layer.warp(scenes, shifts), atol=1e-4)
