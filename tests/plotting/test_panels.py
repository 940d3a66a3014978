"""Figures of tiles are looked at; here it is checked that every tile and frame stands where it should."""

import matplotlib
import numpy as np
import pytest

from lci_tf.plotting import panels, plots

WIDTH = 72 * plots.COLUMN


def images(count, side=16, seed=0):
    return np.random.default_rng(seed).integers(0, 256, [count, side, side, 3], np.uint8)


def tiles(figure):
    """(top, left, side, pixels) of each, in the order of drawing."""
    (axes,) = figure.axes
    found = []
    for image in axes.images:
        left, right, bottom, top = image.get_extent()
        assert right - left == pytest.approx(bottom - top)
        found.append((top, left, right - left, np.asarray(image.get_array())))
    return found


def frames(figure):
    """(top, left, side), with the line's width, as it lies inside."""
    (axes,) = figure.axes
    lines = [(p.get_y(), p.get_x(), p.get_width(), p.get_linewidth()) for p in axes.patches]
    return [(top - line / 2, left - line / 2, side + line) for top, left, side, line in lines]


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def test_a_table_fills_its_width_row_by_row():
    figure = panels.table([images(4), images(4, seed=1), images(3, seed=2)])
    found = tiles(figure)
    side = found[0][2]
    assert figure.get_size_inches()[0] == pytest.approx(plots.COLUMN)
    assert found[0][:2] == (0, 0) and found[3][1] + side == pytest.approx(WIDTH)
    assert found[-1][0] + side == pytest.approx(72 * figure.get_size_inches()[1])
    drawn = [pixels for *_, pixels in found]
    np.testing.assert_array_equal(drawn, [*images(4), *images(4, seed=1), *images(3, seed=2)])
    np.testing.assert_allclose(np.diff([left for _, left, *_ in found[:4]]) - side, 1.5)


def test_figure_2_shows_the_detail_that_its_frame_is_around():
    originals, transformed = images(3, 20), images(3, 20, seed=1)
    figure = panels.transformations(["a", "b", "c"], originals, transformed, [(10, 10), (0, 19), (12, 3)])
    found = tiles(figure)
    for column, (top, left) in enumerate([(6, 6), (0, 12), (8, 0)]):  # eight pixels around the centre, all inside
        detail, whole, below = (found[column + 3 * row] for row in range(3))
        np.testing.assert_array_equal(detail[3], transformed[column, top : top + 8, left : left + 8])
        np.testing.assert_array_equal(whole[3], transformed[column])
        np.testing.assert_array_equal(below[3], originals[column])
        assert detail[1] == whole[1] == below[1] and detail[0] < whole[0] < below[0]
        pixel = whole[2] / 20
        expected = (whole[0] + top * pixel, whole[1] + left * pixel, 8 * pixel)
        assert frames(figure)[column] == pytest.approx(expected)
    assert texts(figure) == ["a", "b", "c", "detail", "transformed", "original"]


def test_patches_of_lci_are_outlined_in_the_images_above():
    before, after, places = images(6, 20), images(6, 20, seed=1), np.arange(12).reshape(6, 2)
    figure = panels.lci(before, after, places, patch_size=8, columns=4)
    found = tiles(figure)
    drawn = [pixels for *_, pixels in found]
    np.testing.assert_array_equal(drawn, [*before[:4], *after[:4], *before[4:], *after[4:]])
    framed = [*found[:4], *found[8:10]]
    for (top, left, side, _), place, frame in zip(framed, places, frames(figure), strict=True):
        assert frame == pytest.approx((top + place[0] * side / 20, left + place[1] * side / 20, 8 * side / 20))
    first, second, third = (found[i][0] for i in (0, 4, 8))
    assert third - second > second - first  # what belongs together stands together


@pytest.mark.parametrize("count, rows", [(96, 8), (64, 4), (5, 1)])
def test_filters_are_squares_of_pixels_in_full_rows(count, rows):
    figure = panels.filters(np.random.default_rng(0).normal(size=[7, 7, 3, count]))
    found = tiles(figure)
    assert len(found) == count and len({top for top, *_ in found}) == rows
    assert all((pixels.min(), pixels.max()) == (0, 255) for *_, pixels in found)
    assert {image.get_interpolation() for image in figure.axes[0].images} == {"nearest"}


def test_patches_have_a_row_for_each_stage():
    figure = panels.patches({"original": images(8), "inpainted": images(8, seed=1)}, columns=6)
    assert texts(figure) == ["original", "inpainted"]
    np.testing.assert_array_equal([p for *_, p in tiles(figure)], [*images(8)[:6], *images(8, seed=1)[:6]])


def test_the_mean_image_is_next_to_its_patches():
    mean = images(1, 32)[0]
    places = [(0, 0), (0, 24), (10, 12), (24, 3)]
    figure = panels.mean_image(mean, places, patch_size=8)
    whole, *patches = tiles(figure)
    np.testing.assert_array_equal(whole[3], mean)
    around = frames(figure)
    for i, ((top, left), patch) in enumerate(zip(places, patches, strict=True)):
        np.testing.assert_array_equal(patch[3], mean[top : top + 8, left : left + 8])
        pixel = whole[2] / 32
        assert around[2 * i] == pytest.approx((top * pixel, left * pixel, 8 * pixel))
        assert around[2 * i + 1] == pytest.approx((patch[0] - 0.4, patch[1] - 0.4, patch[2] + 0.8))  # the edge
    assert texts(figure) == ["(a)", "(b)"]


def test_long_captions_are_written_smaller():
    figure = panels.table(
        [images(2)], column_names=["short", "a transformation with a name that is far too long for it"]
    )
    figure.draw_without_rendering()
    width = [text.get_window_extent().width / figure.dpi * 72 for text in figure.axes[0].texts]
    assert max(width) < tiles(figure)[0][2]


@pytest.mark.parametrize("ending, start", [("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_files_are_of_the_kind_of_their_ending(tmp_path, ending, start):
    path = tmp_path / "new" / f"figure.{ending}"
    plots.save(panels.table([images(2)], column_names=["a", "b"]), path)
    assert path.read_bytes().startswith(start)


def test_neighbours_follow_their_query_with_edges_that_show_their_class():
    queries, found = images(2), images(6, seed=1).reshape(2, 3, 16, 16, 3)
    figure = panels.neighbours(queries, found, np.array([[True, False, True], [False, False, True]]))
    drawn = tiles(figure)
    np.testing.assert_array_equal([pixels for *_, pixels in drawn], [queries[0], *found[0], queries[1], *found[1]])
    edges = [matplotlib.colors.to_hex(patch.get_edgecolor()).upper() for patch in figure.axes[0].patches]
    assert edges[:6] == [panels.RIGHT, panels.WRONG, panels.RIGHT, panels.WRONG, panels.WRONG, panels.RIGHT]
    for (top, left, side), tile in zip(frames(figure)[:6], [*drawn[1:4], *drawn[5:]], strict=True):
        assert top < tile[0] and left < tile[1] and side > tile[2]
    assert edges[6:] == [panels.RIGHT, panels.WRONG]  # below, with what they mean
    assert [text.get_text() for text in figure.axes[0].texts] == ["of the query's class", "of another class"]
    assert all(top > max(tile[0] for tile in drawn) for top, *_ in frames(figure)[6:])
    assert not panels.neighbours(queries, found).axes[0].patches  # without labels


def test_a_map_shows_every_point_and_thumbnails_that_do_not_overlap():
    points = np.random.default_rng(0).normal(size=[300, 2]) * [1, 3] + 5
    labels = np.arange(300) % 3 - 1
    figure = panels.image_map(points, images(300), labels, ("cat", "dog"))
    dots = figure.axes[0].collections[0]
    offsets = dots.get_offsets()
    # Turned, since it was higher than wide, but not out of shape.
    scale = np.ptp(offsets, axis=0) / np.ptp(points[:, ::-1], axis=0)
    assert scale[0] == pytest.approx(scale[1])
    np.testing.assert_allclose(offsets, (points[:, ::-1] - points[0, ::-1]) * scale + offsets[0])
    colours = dots.get_facecolors()
    assert len(np.unique(colours, axis=0)) == 3
    shown = figure.axes[0].images
    assert 30 < len(shown) < 300
    centres = np.array([np.reshape(image.get_extent(), [2, 2]).mean(axis=1) for image in shown])
    apart = np.abs(centres[:, None] - centres).max(axis=-1)
    side = shown[0].get_extent()[1] - shown[0].get_extent()[0]
    assert apart[~np.eye(len(shown), dtype=bool)].min() > side
    for image, centre, patch in zip(shown, centres, figure.axes[0].patches, strict=True):
        (number,) = np.flatnonzero(np.abs(offsets - centre).max(axis=1) < 1e-9)
        np.testing.assert_array_equal(image.get_array(), images(300)[number])
        np.testing.assert_allclose(patch.get_edgecolor(), colours[number])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["cat", "dog"]


@pytest.mark.parametrize("names", [(), tuple(f"class {i}" for i in range(100))])
def test_maps_without_classes_or_with_very_many_have_no_legend(names):
    points = np.random.default_rng(0).normal(size=[50, 2])
    figure = panels.image_map(points, images(50), np.arange(50) if names else None, names)
    assert not figure.legends
    assert len(np.unique(figure.axes[0].collections[0].get_facecolors(), axis=0)) == (50 if names else 1)
