"""Every class that C tells apart: an image of it, with a detail, above the image that it was made of."""

from matplotlib.figure import Figure

from lci_tf.errors import InputError
from lci_tf.plotting import panels
from lci_tf.plotting.pictures import levels
from lci_tf.reporting.examples import examples, middle
from lci_tf.reporting.materials import Materials, PaperFigure


def draw(materials: Materials) -> dict[str, Figure]:
    if "C" not in materials.run.facts()["parameters"]:
        raise InputError(f"--run_dir={materials.run.path}: has no C, since it trained F and D alone")
    shown, crop_size = materials.once(examples), materials.settings.crop_size
    originals, edge = middle(shown.images, crop_size)
    # A source image for each class, of those that carry no autoencoded patch.
    numbers = [(2 * i + 1) % len(originals) for i in range(len(shown.transformed))]
    centres = [(crop_size // 2,) * 2] * len(numbers)
    if "lci" in shown.transformed:
        i = list(shown.transformed).index("lci")
        centres[i] = tuple(shown.patches.places[numbers[i]] + materials.settings.patch_size // 2 - edge)
    transformed = [levels(images[n]) for images, n in zip(shown.transformed.values(), numbers, strict=True)]
    figure = panels.transformations(list(shown.transformed), levels(originals[numbers]), transformed, centres)
    return {"transformations": figure}


TRANSFORMATIONS = PaperFigure(draw)
