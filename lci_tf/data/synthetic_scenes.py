"""Paints the scenes of the synthetic data set: a landscape, and in it six balls in given places.

Everything is computed for a batch of images at once, in float32. Pictures are [n, 3, height, width] with values in
[0, 1] while they are painted, because NumPy is slow along short last axes. x runs to the right and y downwards, in
pixels.
"""

import dataclasses

import numpy as np

SIDE = 96
_BALLS = 6
import os
_LOOSE = int(os.environ.get('LOOSE','10'))
_ALL=_BALLS+_LOOSE
_WINDOW = 24  # pixels: a ball and the shade around it
_PLAIN, _STRIPED, _DOTTED = range(3)
_PIXELS = np.arange(SIDE, dtype=np.float32) + 0.5


class Dice:
    """Random numbers for a batch of images. An image's numbers do not depend on how many images follow it."""

    def __init__(self, count: int, key: tuple[int, ...]):
        self._count = count
        self._seeds = np.random.SeedSequence(key)

    def uniform(self, low: float, high: float, *shape: int) -> np.ndarray:
        """float32 [count, *shape]."""
        generator = np.random.default_rng(self._seeds.spawn(1)[0])
        return low + (high - low) * generator.random((self._count, *shape), np.float32)


@dataclasses.dataclass
class _Landscape:
    picture: np.ndarray
    light: np.ndarray  # [n, 3]: unit vectors (right, down, towards us) to the sun
    ground_colour: np.ndarray  # [n, 3]


@dataclasses.dataclass
class _Balls:
    """Arrays [n, 6] for the six balls of each figure; y_ground, where they cast their shadows, is [n, 1]."""

    x: np.ndarray
    y: np.ndarray
    radius: np.ndarray
    y_ground: np.ndarray


def paint(slots: np.ndarray, dice: Dice) -> np.ndarray:
    """Paints a scene for each figure.

    Args:
      slots: float32 [n, 6, 2], places of the balls in diameters: right of the figure's axis, above the lowest ball.
      dice: decides everything else, and knows nothing of the slots.

    Returns:
      uint8 [n, 96, 96, 3].
    """
    landscape = _paint_landscape(dice)
    balls = _place(slots, dice)
    _cast_shadows(landscape, balls)
    _paint_balls(landscape, balls, dice)
    pixels = np.clip(landscape.picture, 0, 1) * 255 + 0.5
    return pixels.astype(np.uint8).transpose(0, 2, 3, 1)


# --- Colour and noise -------------------------------------------------------------------------------------------


def _colour(lightness, chroma, turns):
    """Oklab's lightness, chroma and hue (in turns) to sRGB: hues drawn at random there go well together."""
    angle = 2 * np.pi * turns
    lab = np.stack(np.broadcast_arrays(lightness, chroma * np.cos(angle), chroma * np.sin(angle)), -1)
    lms = lab @ np.array([[1, 1, 1], [0.39634, -0.10556, -0.08948], [0.21580, -0.06385, -1.29149]], np.float32)
    linear = lms**3 @ np.array(
        [[4.07674, -1.26844, -0.00420], [-3.30771, 2.60976, -0.70342], [0.23097, -0.34132, 1.70761]], np.float32
    )
    linear = np.clip(linear, 0, 1)
    return np.where(linear < 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055).astype(np.float32)


def _spline_weights(places, knots):
    """[len(places), knots]: a cubic B-spline's values at places within 1 … knots-2."""
    distance = np.abs(places[:, None] - np.arange(knots))
    near, far = 2 / 3 - distance**2 + distance**3 / 2, np.clip(2 - distance, 0, None) ** 3 / 6
    return np.where(distance < 1, near, far).astype(np.float32)


def _along_side(knots, bend=1.0):
    """Weights for knots over the picture's side; with bend > 1, ever further apart."""
    return _spline_weights(1 + (knots - 3) * (1 - (1 - _PIXELS / SIDE) ** (1 / bend)), knots)


def _noise(dice, row_weights, column_weights):
    """Smooth noise [n, SIDE, SIDE] in -1 … 1, as fine as the weights' knots."""
    knots = dice.uniform(-1, 1, row_weights.shape[1], column_weights.shape[1])
    return row_weights @ knots @ column_weights.T


def _smooth_step(values, low, high):
    t = np.clip((values - low) / (high - low), 0, 1)
    return t * t * (3 - 2 * t)


def _cover(picture, opacity, colour):
    """Paints over, in place. opacity: [n, height, width]; colour: broadcasts to the picture."""
    picture += opacity[:, None] * (colour - picture)


def _flat(colours):
    return colours[:, :, None, None]


# --- Landscape --------------------------------------------------------------------------------------------------


def _paint_landscape(dice):
    y = _PIXELS[:, None]
    horizon = dice.uniform(54, 64, 1, 1)
    sky_hue, ground_hue = dice.uniform(0, 1), dice.uniform(0, 1)
    haze = _colour(dice.uniform(0.72, 0.96), 0.035, sky_hue + dice.uniform(0.1, 0.25))
    ground_colour = _colour(dice.uniform(0.5, 0.78), dice.uniform(0.06, 0.10), ground_hue)
    far_colour = _colour(dice.uniform(0.66, 0.76), 0.05, ground_hue + dice.uniform(-0.1, 0.1))

    sky_colour = _colour(dice.uniform(0.45, 0.85), dice.uniform(0.05, 0.09), sky_hue)
    picture = _gradient(sky_colour, haze, np.clip(y / horizon, 0, 1))
    sun_x = dice.uniform(12, 84)
    _cover(picture, 0.55 * _glow(sun_x, dice.uniform(2, 14)), np.float32(1))
    _cover(picture, _clouds(dice), np.float32(0.99))
    _cover(picture, _hills(dice, horizon - 5, height=9, knots=8), _flat(0.45 * far_colour + 0.55 * haze))
    _cover(picture, _hills(dice, horizon - 1, height=6, knots=7), _flat(0.8 * far_colour + 0.2 * haze))
    depth = np.clip((y - horizon) / (SIDE - horizon), 0, 1)
    meadow = _gradient(0.7 * ground_colour + 0.3 * haze, 0.9 * ground_colour, depth)
    meadow *= 1 + _grass(dice)[:, None]
    _cover(picture, _hills(dice, horizon + 2, height=2.5, knots=6), meadow)

    sideways = (sun_x - SIDE / 2) / SIDE
    light = np.stack(np.broadcast_arrays(sideways, np.float32(-0.8), np.float32(0.55)), -1)
    return _Landscape(picture, light / np.linalg.norm(light, axis=-1, keepdims=True), ground_colour)


def _gradient(upper, lower, t):
    """Colours [n, 3] and t [n, SIDE, 1] to pictures."""
    t = t[:, None]
    return np.repeat(_flat(upper) * (1 - t) + _flat(lower) * t, SIDE, axis=3)


def _bell(centre, width):
    """exp(-d²/2) along the side, [..., SIDE], for centres and widths [...]."""
    return np.exp(-0.5 * ((_PIXELS - centre[..., None]) / width[..., None]) ** 2)


def _glow(x, y):
    width = np.full_like(x, 17)
    return _bell(y, width)[:, :, None] * _bell(x, width)[:, None, :]


def _clouds(dice):
    large = _noise(dice, _along_side(11), _along_side(7))
    small = _noise(dice, _along_side(26), _along_side(16))
    cover = dice.uniform(-0.05, 0.25, 1, 1)
    return 0.75 * _smooth_step(large + 0.35 * small, cover, cover + 0.55)


def _hills(dice, foot, height, knots):
    """Coverage of all that lies below a rolling line. foot: [n, 1, 1]."""
    line = dice.uniform(-1, 1, 1, knots) @ _along_side(knots).T
    return np.clip(_PIXELS[:, None] - foot + height * line + 0.5, 0, 1)


def _grass(dice):
    """Relative brightness: blades, longer towards us, and patches."""
    blades = _noise(dice, _along_side(48, bend=0.4), _along_side(90))
    patches = _noise(dice, _along_side(16, bend=0.4), _along_side(8))
    return 0.16 * blades + 0.10 * patches


# --- Figure -----------------------------------------------------------------------------------------------------


def _place(slots, dice):
    diameter = dice.uniform(10, 14, 1)
    slots = slots + dice.uniform(-0.06, 0.06, _BALLS, 2)
    lean = dice.uniform(-0.2, 0.2, 1)
    right = np.cos(lean) * slots[..., 0] + np.sin(lean) * slots[..., 1]
    up = np.cos(lean) * slots[..., 1] - np.sin(lean) * slots[..., 0]
    side = np.sign(dice.uniform(-1, 1, 1))
    radius = 0.5 * diameter * dice.uniform(0.85, 1.1, _BALLS)
    x = SIDE / 2 + dice.uniform(-7, 7, 1) + side * diameter * right
    y = SIDE / 2 + dice.uniform(-7, 7, 1) - diameter * up
    import os
    lo,hi=map(float,os.environ.get("LR","2,4.2").split(","))
    x = np.concatenate([dice.uniform(6, SIDE - 6, _LOOSE), x], 1)
    y = np.concatenate([dice.uniform(6, SIDE - 6, _LOOSE), y], 1)
    radius = np.concatenate([dice.uniform(lo,hi, _LOOSE), radius], 1)
    return _Balls(x, y, radius, dice.uniform(78, 88, 1))


def _cast_shadows(landscape, balls):
    """The higher the ball, the wider and fainter its shadow."""
    height = np.clip(balls.y_ground - balls.y,0,None)
    slant = landscape.light[:, :1] / landscape.light[:, 1:2]
    across = _bell(balls.x + 0.5 * slant * height, 0.75 * balls.radius + 0.12 * height)
    strength = 0.5 * balls.radius / (balls.radius + 0.35 * height)
    along = _bell(np.broadcast_to(balls.y_ground + 0.5, height.shape), 1.6 + 0.05 * height) * strength[..., None]
    landscape.picture *= np.exp(-(along[:,_LOOSE:].transpose(0, 2, 1) @ across[:,_LOOSE:]))[:, None]


def _paint_balls(landscape, balls, dice):
    hue = dice.uniform(0, 1, 1)
    lightness = dice.uniform(0.42, 0.88, _ALL)
    bodies = _colour(lightness, 0.13, hue + np.concatenate([dice.uniform(0.35,0.65,1)+dice.uniform(-0.07, 0.07, _LOOSE), dice.uniform(-0.07,0.07,_BALLS)],1))
    marks = _colour(np.where(lightness < 0.65, 0.93, 0.38), 0.05, hue + np.concatenate([dice.uniform(0.4,0.6,_LOOSE),dice.uniform(-0.1,0.1,_BALLS)],1))
    # Two of each kind in every figure, in random places.
    kinds = np.concatenate([np.argsort(dice.uniform(0, 1, _LOOSE), axis=1) % 3, np.argsort(dice.uniform(0, 1, _BALLS), axis=1) // 2],1)
    axes = _random_axes(dice)

    count = len(hue)
    painted = np.zeros((count, 1, SIDE, SIDE), np.float32)
    for i in range(_ALL):
        corner_x = np.clip(np.rint(balls.x[:, i]).astype(int) - _WINDOW // 2, 0, SIDE - _WINDOW)
        corner_y = np.clip(np.rint(balls.y[:, i]).astype(int) - _WINDOW // 2, 0, SIDE - _WINDOW)
        pixels = np.arange(_WINDOW, dtype=np.float32) + 0.5
        right = (pixels + (corner_x - balls.x[:, i]).astype(np.float32)[:, None])[:, None, :]
        down = (pixels + (corner_y - balls.y[:, i]).astype(np.float32)[:, None])[:, :, None]
        radius = balls.radius[:, i, None, None]

        window = (np.arange(count), slice(None), corner_y, corner_x)
        behind = _windows(painted)[window]
        picture = _windows(landscape.picture)[window]
        # Where balls touch, the upper one takes light from the lower.
        gap = np.clip(np.hypot(right, down - 1.5) - radius, 0, None)
        picture *= 1 - 0.45 * behind * np.exp(-gap / 2)[:, None]

        normals = _normals(right / radius, down / radius)
        mark = _texture(kinds[:, i], axes[:, i], normals)
        colour = _flat(bodies[:, i]) + mark[:, None] * (_flat(marks[:, i]) - _flat(bodies[:, i]))
        opacity = np.clip(radius - np.hypot(right, down) + 0.5, 0, 1)
        _cover(picture, opacity, _lit(colour, normals, landscape))
        _windows(landscape.picture)[window] = picture
        _windows(painted)[window] = np.maximum(behind, opacity[:, None])


def _windows(picture):
    """[n, channels, y, x] of windows with their upper left corner there, to read and to write."""
    return np.lib.stride_tricks.sliding_window_view(picture, (_WINDOW, _WINDOW), axis=(2, 3), writeable=True)


def _random_axes(dice):
    """[n, 6, 3, 3]: three perpendicular unit vectors for each ball."""
    first, second = dice.uniform(-1, 1, _ALL, 3), dice.uniform(-1, 1, _ALL, 3)
    third = np.cross(first, second)
    axes = np.stack([first, np.cross(third, first), third], axis=-2)
    return axes / np.linalg.norm(axes, axis=-1, keepdims=True)


def _normals(right, down):
    """Of a unit ball, [n, 3, height, width]; outside of it, those of its rim."""
    distance = np.maximum(np.hypot(right, down), 1)
    right, down = right / distance, down / distance
    return np.stack([right, down, np.sqrt(np.clip(1 - right**2 - down**2, 0, 1))], axis=1)


def _texture(kinds, axes, normals):
    """How far each pixel has the colour of the marks, 0 … 1."""
    count = len(normals)
    turned = np.abs(axes @ normals.reshape(count, 3, -1)).reshape(normals.shape)
    stripes = _smooth_step(np.cos(6.5 * turned[:, 0]), -0.35, 0.35)
    # Dots are on the faces and on the corners of a cube.
    dots = _smooth_step(np.maximum(turned.max(1), turned.sum(1) * np.float32(3**-0.5)), 0.93, 0.985)
    kinds = kinds[:, None, None]
    return (kinds == _STRIPED) * stripes + (kinds == _DOTTED) * dots


def _lit(colour, normals, landscape):
    light = landscape.light
    towards_light = np.einsum("nc,nchw->nhw", light, normals)[:, None]
    down = normals[:, 1:2]
    diffuse = 0.62 - 0.16 * down + 0.5 * np.clip(towards_light, 0, None)
    bounced = 0.22 * np.clip(down, 0, None) * _flat(landscape.ground_colour)
    halfway = light + np.float32([0, 0, 1])
    halfway /= np.linalg.norm(halfway, axis=-1, keepdims=True)
    shine = 0.45 * np.clip(np.einsum("nc,nchw->nhw", halfway, normals), 0, 1)[:, None] ** 24
    return colour * diffuse + bounced + shine
