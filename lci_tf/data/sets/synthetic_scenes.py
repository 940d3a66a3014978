"""Paints the scenes of the synthetic data set: a landscape with balls floating above it.

Everything is computed for a batch of images at once, in float32. While they are painted, pictures are [n, 3, height,
width] with values in [0, 1], because NumPy is slow on short last axes. x points to the right and y down, in pixels.
"""

import dataclasses
from typing import Any

import numpy as np

SIDE = 96
TEXTURES = 3
_STRIPED, _DOTTED = 1, 2  # and 0 is plain
_MARGIN = 3  # pixels around the largest ball, for its shade on other balls
_PIXELS = np.arange(SIDE, dtype=np.float32) + 0.5


class Dice:
    """Random numbers for a batch of images. The numbers of an image do not depend on how many images follow."""

    def __init__(self, count: int, key: tuple[int, ...]):
        self._count = count
        self._seeds = np.random.SeedSequence(key)

    def uniform(self, low: float, high: float, *shape: int) -> np.ndarray:
        """Draws from [low, high), float32 [count, *shape]."""
        generator = np.random.default_rng(self._seeds.spawn(1)[0])
        return low + (high - low) * generator.random((self._count, *shape), np.float32)


@dataclasses.dataclass
class Balls:
    """The balls of a batch of images, in the order of painting. Arrays are [n, balls], colours [n, balls, 3]."""

    x: np.ndarray
    y: np.ndarray
    radius: np.ndarray
    colour: np.ndarray
    mark_colour: np.ndarray
    texture: np.ndarray  # integers below TEXTURES
    largest_radius: float  # upper bound of `radius`


@dataclasses.dataclass
class _Landscape:
    picture: np.ndarray
    light: np.ndarray  # [n, 3]: unit vectors (right, down, towards the viewer) to the sun
    ground_colour: np.ndarray  # [n, 3]


def paint(figure: Balls, loose: Balls, dice: Dice) -> np.ndarray:
    """Paints a landscape, the loose balls, and the figure of balls with its shadow: uint8 [n, 96, 96, 3]."""
    landscape = _paint_landscape(dice)
    _cast_shadows(landscape, figure, y_ground=dice.uniform(80, 88, 1))
    _paint_balls(landscape, loose, dice)
    _paint_balls(landscape, figure, dice)
    pixels = np.clip(landscape.picture, 0, 1) * 255 + 0.5
    return pixels.astype(np.uint8).transpose(0, 2, 3, 1)


# --- Colour and noise -------------------------------------------------------------------------------------------------


def colour(lightness: np.ndarray, chroma: np.ndarray | float, turns: np.ndarray) -> np.ndarray:
    """From Oklab lightness, chroma and hue (in turns) to sRGB [..., 3]; in Oklab, random hues go well together."""
    angle = 2 * np.pi * turns
    lab = np.stack(np.broadcast_arrays(lightness, chroma * np.cos(angle), chroma * np.sin(angle)), -1)
    lms = lab @ np.array([[1, 1, 1], [0.39634, -0.10556, -0.08948], [0.21580, -0.06385, -1.29149]], np.float32)
    linear = lms**3 @ np.array(
        [[4.07674, -1.26844, -0.00420], [-3.30771, 2.60976, -0.70342], [0.23097, -0.34132, 1.70761]], np.float32
    )
    linear = np.clip(linear, 0, 1)
    return np.where(linear < 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055).astype(np.float32)


def _along_side(knots, bend=1.0):
    """Weights of a cubic B-spline at each pixel, [SIDE, knots]; with bend < 1, knots are ever further apart."""
    places = 1 + (knots - 3) * (_PIXELS / SIDE) ** bend
    distance = np.abs(places[:, None] - np.arange(knots))
    near, far = 2 / 3 - distance**2 + distance**3 / 2, np.clip(2 - distance, 0, None) ** 3 / 6
    return np.where(distance < 1, near, far).astype(np.float32)


def _noise(dice, row_weights, column_weights):
    """Smooth noise in -1 … 1, [n, SIDE, SIDE], as fine as the knots of the weights."""
    knots = dice.uniform(-1, 1, row_weights.shape[1], column_weights.shape[1])
    return row_weights @ knots @ column_weights.T


def _smooth_step(values, low, high):
    t = np.clip((values - low) / (high - low), 0, 1)
    return t * t * (3 - 2 * t)


def _bell(centre, width):
    """exp(-d²/2) at each pixel of a side, [..., SIDE], where d is the distance from the centre in widths [...]."""
    return np.exp(-0.5 * ((_PIXELS - centre[..., None]) / width[..., None]) ** 2)


def _cover(picture, opacity, paint):
    """Paints over a picture, in place. opacity: [n, height, width]; paint: broadcasts to the picture."""
    change = paint - picture
    change *= opacity[:, None]
    picture += change


def _flat(colours):
    return colours[:, :, None, None]


# --- Landscape --------------------------------------------------------------------------------------------------------


def _paint_landscape(dice):
    horizon = dice.uniform(54, 64, 1, 1)
    sky_hue, ground_hue = dice.uniform(0, 1), dice.uniform(0, 1)
    sky_colour = colour(dice.uniform(0.54, 0.85), dice.uniform(0.06, 0.10), sky_hue)
    haze = colour(dice.uniform(0.82, 0.97), 0.035, sky_hue + dice.uniform(0.1, 0.25))
    ground_colour = colour(dice.uniform(0.56, 0.80), dice.uniform(0.07, 0.11), ground_hue)
    hill_colour = colour(dice.uniform(0.66, 0.76), 0.05, ground_hue + dice.uniform(-0.1, 0.1))

    picture = _gradient(sky_colour, haze, _PIXELS[:, None] / horizon)
    sun_x, sun_y = dice.uniform(12, 84), dice.uniform(2, 14)
    _cover(picture, 0.55 * _glow(sun_x, sun_y), np.float32(1))
    _cover(picture, _clouds(dice), np.float32(0.99))
    _cover(picture, _hills(dice, horizon - 5, height=9, knots=8), _flat(0.45 * hill_colour + 0.55 * haze))
    _cover(picture, _hills(dice, horizon - 1, height=6, knots=7), _flat(0.8 * hill_colour + 0.2 * haze))
    depth = (_PIXELS[:, None] - horizon) / (SIDE - horizon)
    meadow = _gradient(0.7 * ground_colour + 0.3 * haze, 0.9 * ground_colour, depth) * (1 + _grass(dice)[:, None])
    _cover(picture, _hills(dice, horizon + 2, height=2.5, knots=6), meadow)

    light = np.stack(np.broadcast_arrays((sun_x - SIDE / 2) / SIDE, np.float32(-0.8), np.float32(0.55)), -1)
    return _Landscape(picture, _unit(light), ground_colour)


def _gradient(upper, lower, t):
    """Pictures that go from the colour `upper` [n, 3] at t = 0 to `lower` at t = 1; t: [n, SIDE, 1]."""
    t = np.clip(t, 0, 1)[:, None]
    return np.repeat(_flat(upper) * (1 - t) + _flat(lower) * t, SIDE, axis=3)


def _glow(x, y):
    width = np.full_like(x, 17)
    return _bell(y, width)[:, :, None] * _bell(x, width)[:, None, :]


def _clouds(dice):
    large = _noise(dice, _along_side(11), _along_side(7))
    small = _noise(dice, _along_side(26), _along_side(16))
    threshold = dice.uniform(-0.05, 0.25, 1, 1)
    return 0.75 * _smooth_step(large + 0.35 * small, threshold, threshold + 0.55)


def _hills(dice, foot, height, knots):
    """Coverage, 0 … 1, of everything below a rolling line at about `foot` [n, 1, 1]."""
    line = dice.uniform(-1, 1, 1, knots) @ _along_side(knots).T
    return np.clip(_PIXELS[:, None] - foot + height * line + 0.5, 0, 1)


def _grass(dice):
    """Relative brightness of grass, with blades and patches."""
    blades = _noise(dice, _along_side(30), _along_side(96))
    patches = _noise(dice, _along_side(20), _along_side(8))
    return 0.13 * blades + 0.10 * patches


# --- Balls ------------------------------------------------------------------------------------------------------------


def _cast_shadows(landscape, balls, y_ground):
    """Darkens the ground at y_ground [n, 1]: the higher a ball, the wider and fainter its shadow."""
    height = y_ground - balls.y
    slant = landscape.light[:, :1] / landscape.light[:, 1:2]
    across = _bell(balls.x + 0.5 * slant * height, 0.75 * balls.radius + 0.12 * height)
    strength = 0.5 * balls.radius / (balls.radius + 0.35 * height)
    down = _bell(np.broadcast_to(y_ground, height.shape), 1.6 + 0.05 * height) * strength[..., None]
    landscape.picture *= np.exp(-(down.transpose(0, 2, 1) @ across))[:, None]


def _paint_balls(landscape, balls, dice):
    count, per_image = balls.x.shape
    axes = _random_axes(dice, per_image)
    painted = np.zeros((count, 1, SIDE, SIDE), np.float32)
    size = 2 * int(balls.largest_radius + _MARGIN)
    for i in range(per_image):
        left, right = _window_around(balls.x[:, i], size)
        top, down = _window_around(balls.y[:, i], size)
        right, down = right[:, None, :], down[:, :, None]
        radius = balls.radius[:, i, None, None]
        opacity = np.clip(radius - _length(right, down) + 0.5, 0, 1)

        window = (np.arange(count), slice(None), top, left)
        below = _windows(painted, size)[window]
        picture = _windows(landscape.picture, size)[window]
        # Where balls touch, the later one shades the earlier.
        gap = np.clip(_length(right, down - 1.5) - radius, 0, None)
        picture *= 1 - 0.45 * below * np.exp(-gap / 2)[:, None]
        normals = _normals(right / radius, down / radius)
        marks = _marks(balls.texture[:, i], axes[:, i], normals)
        own_colour, mark_colour = _flat(balls.colour[:, i]), _flat(balls.mark_colour[:, i])
        _cover(picture, opacity, _lit(own_colour + marks[:, None] * (mark_colour - own_colour), normals, landscape))
        _windows(landscape.picture, size)[window] = picture
        _windows(painted, size)[window] = np.maximum(below, opacity[:, None])


def _window_around(centre, size):
    """For centres [n]: the start of a window around each, and its pixels' positions relative to it, [n, size]."""
    start = np.clip(np.rint(centre).astype(int) - size // 2, 0, SIDE - size)
    return start, _PIXELS[:size] + (start.astype(np.float32) - centre)[:, None]


def _windows(picture, size):
    """All windows of a picture, [n, channels, top, left, size, size], as a writable view."""
    window_view: Any = np.lib.stride_tricks.sliding_window_view  # whose types know of one axis alone
    return window_view(picture, (size, size), axis=(2, 3), writeable=True)


def _length(right, down):
    return np.sqrt(right * right + down * down)  # ten times faster than np.hypot


def _along(directions, normals):
    """Scalar products of [n, k, 3] and [n, 3, height, width]: [n, k, height, width]."""
    count, _, height, width = normals.shape
    return (directions @ normals.reshape(count, 3, -1)).reshape(count, -1, height, width)


def _unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def _random_axes(dice, balls):
    """[n, balls, 3, 3]: three perpendicular unit vectors for each ball."""
    first, other = dice.uniform(-1, 1, balls, 3), dice.uniform(-1, 1, balls, 3)
    second = np.cross(first, other)
    return _unit(np.stack([first, second, np.cross(first, second)], axis=-2))


def _normals(right, down):
    """Surface normals of a unit ball, [n, 3, height, width]; outside the ball, those of its rim."""
    distance = np.maximum(_length(right, down), 1)
    right, down = right / distance, down / distance
    return np.stack([right, down, np.sqrt(np.clip(1 - right**2 - down**2, 0, 1))], axis=1)


def _marks(texture, axes, normals):
    """Coverage of each pixel by the ball's stripes or dots, 0 … 1."""
    turned = np.abs(_along(axes, normals))
    stripes = _smooth_step(np.cos(6.5 * turned[:, 0]), -0.35, 0.35)
    # Dots are at the faces and corners of a cube.
    dots = _smooth_step(np.maximum(turned.max(1), turned.sum(1) * 3**-0.5), 0.93, 0.985)
    texture = texture[:, None, None]
    return np.where(texture == _STRIPED, stripes, np.where(texture == _DOTTED, dots, np.float32(0)))


def _lit(paint, normals, landscape):
    """Lights a surface: daylight from above, sunlight, light from the ground, and the reflection of the sun."""
    reflecting = _unit(landscape.light + np.array([0, 0, 1], np.float32))
    facing_sun, shine = np.split(np.clip(_along(np.stack([landscape.light, reflecting], 1), normals), 0, 1), 2, axis=1)
    for _ in range(4):
        shine = shine * shine  # the 16th power
    down = normals[:, 1:2]
    daylight = 0.62 - 0.16 * down + 0.5 * facing_sun
    bounced = 0.22 * np.clip(down, 0, None) * _flat(landscape.ground_colour)
    return paint * daylight + bounced + 0.45 * shine
