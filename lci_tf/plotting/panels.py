"""Figures of images for a paper: in rows and columns with captions and frames, or scattered over a map.

They are drawn with matplotlib, to have the width of a paper's column and the font of the diagrams, and in a PDF text
and frames that are not pixels. Pictures for the screen are in `pictures`.
"""

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from lci_tf.plotting import pictures, plots

_GAP = 1.5  # points
_GROUP_GAP = 5.0
_LETTERS = 7.0
_CAPTION = 10.0  # height of a caption, or its width if rotated
_LINE = 0.8
_DETAIL = 0.4  # side of a detail, as a share of the image's
_NAMED = 20  # largest number of classes whose colours can be told apart
RED = "#E8262A"
RIGHT, WRONG = plots.COLOURS[2], plots.COLOURS[1]

Squares = Sequence[np.ndarray] | np.ndarray  # square images, uint8 [side, side, 3]
Frame = tuple[float, float, float]  # top, left and side, relative to a tile with 0, 0 and 1


class Panel:
    """A page on which to place images. Positions and lengths are in points, from the upper left corner.

    Args:
      width, height: size of the page.
      smooth: whether to enlarge images smoothly, instead of showing every pixel as a square.
    """

    def __init__(self, width: float, height: float, smooth: bool = True):
        self.figure = Figure((width / 72, height / 72))
        self.figure.set_layout_engine("none")
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set(xlim=(0, width), ylim=(height, 0), autoscale_on=False)
        self.axes.set_axis_off()
        self._interpolation = "bicubic" if smooth else "nearest"

    def tile(
        self,
        image: np.ndarray,
        top: float,
        left: float,
        side: float,
        frame: Frame | None = None,
        edge: str | None = None,
    ) -> None:
        """Draws an image, uint8 [height, width, 3], as a square, optionally with a frame inside or a coloured edge."""
        inset = _LINE / 2 if edge else 0.0  # so that the image does not extend beyond its edge
        extent = (left + inset, left + side - inset, top + side - inset, top + inset)
        self.axes.imshow(image, extent=extent, interpolation=self._interpolation, aspect="auto")
        if frame:
            self.frame(top + frame[0] * side, left + frame[1] * side, frame[2] * side)
        if edge:
            self.frame(top, left, side, edge)

    def frame(self, top: float, left: float, side: float, colour: str = RED) -> None:
        """Draws a line just inside a square."""
        inner = side - _LINE
        corner = (left + _LINE / 2, top + _LINE / 2)
        self.axes.add_patch(Rectangle(corner, inner, inner, fill=False, edgecolor=colour, linewidth=_LINE))

    def legend(self, colours: Mapping[str, str], middle: float) -> None:
        """Draws a legend in one line: colour of a frame -> what it means. `middle` is its vertical centre."""
        left, side = 0.0, 0.8 * _LETTERS
        for colour, text in colours.items():
            self.frame(middle - side / 2, left, side, colour)
            left += side + 2 * _GAP
            self.axes.text(left, middle, text, fontsize=_LETTERS, ha="left", va="center_baseline")
            left += 0.5 * _LETTERS * len(text) + 4 * _GAP

    def captions(
        self, texts: Sequence[str], middles: Sequence[tuple[float, float]], room: float, turned: bool = False
    ) -> None:
        """Draws texts centred at `middles` (top, left), in a font small enough that none is longer than `room`."""
        longest = max((len(text) for text in texts), default=1)
        size = min(_LETTERS, room / (0.6 * longest))  # approximate ratio of a letter's width to its height
        for text, (top, left) in zip(texts, middles, strict=True):
            self.axes.text(left, top, text, fontsize=size, ha="center", va="center" if turned else "center_baseline",
                           rotation=90 if turned else 0)  # fmt: skip


def table(
    rows: Sequence[Squares],
    width: float = plots.COLUMN,
    column_names: Sequence[str] = (),
    row_names: Sequence[str] = (),
    frames: Mapping[tuple[int, int], Frame] | None = None,
    group: int = 0,
    smooth: bool = True,
) -> Figure:
    """Draws rows of images.

    Args:
      rows: the images, no row longer than the first.
      width: width of the figure in inches.
      column_names, row_names: captions above and on the left.
      frames: (row, column) of an image -> frame inside it.
      group: number of rows after which there is a wider gap; 0 for none.
      smooth: see `Panel`.
    """
    frames, columns = frames or {}, len(rows[0])
    above, left = _CAPTION * bool(column_names), _CAPTION * bool(row_names)
    side = (72 * width - left - _GAP * (columns - 1)) / columns
    lefts = [left + column * (side + _GAP) for column in range(columns)]
    groups = [row // group if group else 0 for row in range(len(rows))]
    tops = [above + row * (side + _GAP) + groups[row] * (_GROUP_GAP - _GAP) for row in range(len(rows))]
    panel = Panel(72 * width, tops[-1] + side, smooth)
    for row, tiles in enumerate(rows):
        for column, tile in enumerate(tiles):
            panel.tile(tile, tops[row], lefts[column], side, frames.get((row, column)))
    if column_names:
        panel.captions(column_names, [(above / 2, at + side / 2) for at in lefts], side)
    if row_names:
        panel.captions(row_names, [(at + side / 2, left / 2) for at in tops], side, turned=True)
    return panel.figure


def transformations(
    names: Sequence[str], originals: Squares, transformed: Squares, centres: Sequence[tuple[int, int]]
) -> Figure:
    """The paper's Figure 2: for each transformation a detail, the transformed image, and below it the original.

    Args:
      names: names of the transformations.
      originals, transformed: an image for each.
      centres: (row, column) of the centre of each detail, in pixels of the transformed image.
    """
    size = len(transformed[0])
    side = round(_DETAIL * size)
    details, frames = [], {}
    for column, (image, centre) in enumerate(zip(transformed, centres, strict=True)):
        top, left = (min(max(middle - side // 2, 0), size - side) for middle in centre)
        details.append(image[top : top + side, left : left + side])
        frames[1, column] = (top / size, left / size, side / size)
    rows = [details, transformed, originals]
    return table(rows, column_names=names, row_names=("detail", "transformed", "original"), frames=frames)


def lci(images: Squares, inpainted: Squares, places: np.ndarray, patch_size: int, columns: int = 4) -> Figure:
    """As in the paper's supplement: rows of images with the patch outlined, each above the same images after LCI.

    Args:
      images, inpainted: [n, side, side, 3].
      places: int [n, 2], row and column of each patch's upper left corner.
      patch_size: side of the patches, in pixels.
    """
    size, frames = len(images[0]), {}
    rows: list[Squares] = []
    for first in range(0, len(images), columns):
        for column, (top, left) in enumerate(places[first : first + columns].tolist()):
            frames[len(rows), column] = (top / size, left / size, patch_size / size)
        rows += [images[first : first + columns], inpainted[first : first + columns]]
    return table(rows, frames=frames, group=2)


def patches(stages: Mapping[str, Squares], columns: int = 6) -> Figure:
    """The input and output of F: a row for each stage, a column for each patch."""
    return table([tiles[:columns] for tiles in stages.values()], row_names=list(stages))


def neighbours(queries: Squares, found: Sequence[Squares] | np.ndarray, are_right: np.ndarray | None = None) -> Figure:
    """The paper's retrieval figure: in each row a query, then its neighbours, the nearest first.

    Args:
      queries: an image for each row.
      found: the neighbours of each query.
      are_right: bool [rows, neighbours], whether neighbours are of the query's class, to be shown by frames.
    """
    count, width = len(found[0]), 72 * plots.COLUMN
    side = (width - _GROUP_GAP - _GAP * (count - 1)) / (count + 1)
    height = len(queries) * (side + _GAP) - _GAP
    panel = Panel(width, height + (0 if are_right is None else _CAPTION))
    for row, (query, tiles) in enumerate(zip(queries, found, strict=True)):
        top = row * (side + _GAP)
        panel.tile(query, top, 0, side)
        for column, tile in enumerate(tiles):
            left = side + _GROUP_GAP + column * (side + _GAP)
            edge = None if are_right is None else RIGHT if are_right[row, column] else WRONG
            panel.tile(tile, top, left, side, edge=edge)
    if are_right is not None:
        panel.legend({RIGHT: "of the query's class", WRONG: "of another class"}, height + _CAPTION / 2)
    return panel.figure


def filters(kernel: np.ndarray) -> Figure:
    """The filters of a first convolution, kernel [h, w, 3, n], each scaled to its own range."""
    tiles = pictures.filter_levels(kernel)
    columns = min(len(tiles), next((c for c in (12, 16) if len(tiles) % c == 0), 12))
    rows = [tiles[first : first + columns] for first in range(0, len(tiles), columns)]
    return table(rows, smooth=False)


def mean_image(mean: np.ndarray, places: Sequence[tuple[int, int]], patch_size: int) -> Figure:
    """The paper's figure of CelebA: the mean image (a), and four patches of it (b), framed in the mean image.

    Args:
      mean: uint8 [side, side, 3].
      places: row and column of each patch's upper left corner.
      patch_size: side of the patches, in pixels.
    """
    width = 72 * plots.COLUMN
    side = (width - _GROUP_GAP) / 2
    small = (side - _GAP) / 2
    panel = Panel(width, side + _CAPTION)
    panel.tile(mean, 0, 0, side)
    pixel = side / len(mean)
    for i, ((top, left), colour) in enumerate(zip(places, plots.COLOURS, strict=False)):
        panel.frame(top * pixel, left * pixel, patch_size * pixel, colour)
        row, column = divmod(i, 2)
        at = (row * (small + _GAP), side + _GROUP_GAP + column * (small + _GAP))
        panel.tile(mean[top : top + patch_size, left : left + patch_size], *at, small, edge=colour)
    below = side + _CAPTION / 2
    panel.captions(("(a)", "(b)"), [(below, side / 2), (below, width - side / 2)], side)
    return panel.figure


def image_map(
    points: np.ndarray, thumbnails: np.ndarray, labels: np.ndarray | None = None, names: tuple[str, ...] = ()
) -> Figure:
    """A map of images: a dot for each, and as many thumbnails as there is room for.

    Args:
      points: [n, 2], positions on the map.
      thumbnails: uint8 [n, side, side, 3].
      labels: int [n], classes as indices into `names`, or -1 for none; each class has a colour.
    """
    points = points - (points.min(axis=0) + points.max(axis=0)) / 2
    reach = np.abs(points).max(axis=0)
    if reach[1] > reach[0]:  # the orientation means nothing, and pages are wide
        points, reach = points[:, ::-1], reach[::-1]
    points, half = points / max(reach[0], 1e-9), 0.035  # half of a thumbnail's side, on a map of width 2
    right, top = reach / max(reach[0], 1e-9) + 1.2 * half
    labels = np.full(len(points), -1) if labels is None else labels
    colours, has_legend = _class_colours(len(names)), 0 < len(names) <= _NAMED
    figure = Figure((plots.PAGE, (plots.PAGE - 0.9 * has_legend) * top / right))
    axes = figure.add_subplot()
    axes.set_axis_off()
    axes.scatter(points[:, 0], points[:, 1], s=5, c=colours[labels], linewidths=0)
    for i in _apart(points, 2.2 * half):
        (x, y), edge = points[i], colours[labels[i]]
        axes.imshow(thumbnails[i], extent=(x - half, x + half, y - half, y + half), interpolation="bicubic", zorder=2)
        frame = Rectangle((x - half, y - half), 2 * half, 2 * half, fill=False, edgecolor=edge, linewidth=1, zorder=3)
        axes.add_patch(frame)
    axes.set(xlim=(-right, right), ylim=(-top, top), aspect="equal")
    if has_legend:
        dots = [Line2D([], [], marker="o", linestyle="", markersize=4, color=c) for c in colours[:-1]]
        figure.legend(dots, names, loc="outside right center", handletextpad=0)
    return figure


def _class_colours(count):
    """RGBA colours, float [count + 1, 4]; the last is for images without a class."""
    if count <= _NAMED:
        found = matplotlib.colormaps["tab10" if count <= 10 else "tab20"](np.arange(count))
    else:
        found = matplotlib.colormaps["hsv"](np.arange(count) / count)
    return np.concatenate([found, [matplotlib.colors.to_rgba("0.6")]])


def _apart(points, distance):
    """Indices of randomly chosen points, no two of which are nearer than `distance` in both directions."""
    chosen: list[int] = []
    for i in np.random.default_rng(0).permutation(len(points)):
        if np.abs(points[chosen] - points[i]).max(axis=1).min(initial=np.inf) >= distance:
            chosen.append(i)
    return chosen
