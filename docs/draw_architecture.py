"""Draws docs/architecture.png: an image's way from file to feature, and a step's way through C, F and D.

python docs/draw_architecture.py
"""

import pathlib

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

PLAIN, C, F, D = "#eef1f5", "#cfe3f7", "#fbe0c3", "#dcefcf"
FORWARD, BACKWARD = "#3a4654", "#b5322a"


def box(axes, at, text, colour=PLAIN, width=2.3, height=1.0, room=""):
    """A box centred at a place; the room of the package that does this stands below it."""
    x, y = at
    corner = (x - width / 2, y - height / 2)
    style = "round,pad=0.02,rounding_size=0.12"
    axes.add_patch(FancyBboxPatch(corner, width, height, boxstyle=style, facecolor=colour, edgecolor=FORWARD, lw=1))
    axes.text(x, y, text, ha="center", va="center", fontsize=8.5, linespacing=1.35)
    axes.text(x, y - height / 2 - 0.09, room, ha="center", va="top", fontsize=7.5, family="monospace", color="#5b6675")


def arrow(axes, start, end, colour=FORWARD, label="", bend=0.0, dashed=False, label_at=None):
    line = {"arrowstyle": "-|>", "color": colour, "lw": 1.2, "shrinkA": 0, "shrinkB": 0}
    line |= {"connectionstyle": f"arc3,rad={bend}", "linestyle": "--" if dashed else "-"}
    axes.annotate("", xy=end, xytext=start, arrowprops=line)
    if label:
        x, y = label_at or ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2 + 0.13)
        axes.text(x, y, label, ha="center", va="bottom", fontsize=7.5, color=colour)


def way_of_an_image(axes):
    axes.set_title("From file to feature", loc="left", fontsize=12, weight="bold")
    stations = [
        ("a file, a record\nor pixels", PLAIN, "data/sets"),
        ("rows of a source:\nany split of any set", PLAIN, "data"),
        ("decode,\nturn upright", PLAIN, "imaging"),
        ("shrink, crop,\nscale to [-1, 1]", PLAIN, "imaging"),
        ("a batch\n[n, 64, 64, 3]", PLAIN, "data/pipeline"),
        ("C's layers\nconv1 … conv5", C, "models"),
    ]
    step = 2.85
    for i, (text, colour, room) in enumerate(stations):
        box(axes, (1.3 + i * step, 1.9), text, colour, room=room)
        if i:
            arrow(axes, (1.3 + (i - 1) * step + 1.18, 1.9), (1.3 + i * step - 1.18, 1.9))
    last = 1.3 + 5 * step
    for y, text, room in (
        (3.4, "probes, neighbours,\nfine-tuning, VOC", "evaluation"),
        (1.9, "a SavedModel with all\nof this in one graph", "serving"),
        (0.4, "a row per image,\nshards, search", "embedding"),
    ):
        box(axes, (last + 3.3, y), text, width=2.6, height=0.86, room=room)
    for y in (3.4, 1.9):
        arrow(axes, (last + 1.18, 1.9), (last + 1.97, y))
    arrow(axes, (last + 3.3, 1.2), (last + 3.3, 0.84))
    axes.set(xlim=(0, 20.3), ylim=(-0.4, 3.95))


def way_of_a_step(axes):
    axes.set_title("A step (64 images of STL-10, patches of 48 pixels)", loc="left", fontsize=12, weight="bold")
    box(axes, (1.3, 3.6), "images x with margin\n[64, 80, 80, 3]", height=1.1, room="data")
    box(
        axes,
        (4.5, 1.7),
        "patches e, and e with\nnoise in its centre\n2 × [64, 48, 48, 3]",
        height=1.2,
        room="transforms/lci",
    )
    box(axes, (7.7, 1.7), "F\nboth kinds as one batch", F, height=1.2, room="models/inpainter")
    box(axes, (10.9, 1.7), "F(e) autoencoded,\nr inpainted", F, height=1.2)
    box(
        axes,
        (14.1, 1.7),
        "D\npairs of e, pairs of r\n2 × [32, 48, 48, 6]",
        D,
        height=1.2,
        room="models/patch_discriminator",
    )
    box(axes, (10.9, 5.0), "T₀ … T₅, then tilt and cut:\none stack for each class\n6 × [64, 64, 64, 3]",
        width=2.7, height=1.3, room="transforms")  # fmt: skip
    box(axes, (14.1, 5.0), "C\nall classes as one batch", C, height=1.3, room="models")
    box(axes, (17.9, 5.0), "L_SSL: which class?  (1)", C, width=3.0, height=0.8, room="pretraining/losses")
    box(axes, (17.9, 2.35), "L_D: which are real?", D, width=3.0, height=0.7)
    box(axes, (17.9, 1.1), "L_F = GAN + 50 · border\n+ 50 · autoencoding − L_SSL  (5)", F, width=3.3, height=0.9,
        room="pretraining/losses")  # fmt: skip

    arrow(axes, (2.48, 3.3), (3.32, 2.2), label="cut, erase (2)", label_at=(2.1, 2.25))
    arrow(axes, (5.68, 1.7), (6.52, 1.7))
    arrow(axes, (8.88, 1.7), (9.72, 1.7), label="(3)")
    arrow(axes, (12.08, 1.7), (12.92, 1.7))
    arrow(axes, (2.48, 3.9), (9.52, 5.0))
    arrow(axes, (10.9, 2.33), (10.9, 4.1), label="paste r: T₅ (4);\nF(e) into every second\nimage of T₀ and T₁ … T₃",
          label_at=(9.25, 2.75))  # fmt: skip
    arrow(axes, (12.28, 5.0), (12.92, 5.0))
    arrow(axes, (15.28, 5.0), (16.37, 5.0))
    arrow(axes, (15.28, 1.9), (16.37, 2.3))
    arrow(axes, (15.28, 1.5), (16.22, 1.2))
    # Backwards
    arrow(axes, (17.0, 5.42), (14.4, 5.68), BACKWARD, bend=0.3, dashed=True, label="trains C", label_at=(15.8, 6.05))
    shared = "the same gradient,\nnegated, is C's part in F's"
    arrow(axes, (13.4, 4.33), (11.5, 2.33), BACKWARD, dashed=True, label=shared,
          label_at=(14.1, 3.28))  # fmt: skip
    arrow(axes, (17.0, 2.72), (14.5, 2.33), BACKWARD, bend=0.25, dashed=True, label="trains D", label_at=(15.5, 3.0))
    arrow(axes, (16.6, 0.63), (7.7, 0.72), BACKWARD, bend=-0.12, dashed=True, label="trains F", label_at=(12.3, -0.12))
    axes.set(xlim=(0, 20.3), ylim=(-0.4, 6.5))


figure, (above, below) = plt.subplots(2, 1, figsize=(15.6, 9.2), height_ratios=[4.35, 6.9], layout="constrained")
for axes in (above, below):
    axes.axis("off")
way_of_an_image(above)
way_of_a_step(below)
figure.savefig(pathlib.Path(__file__).with_name("architecture.png"), dpi=110)
