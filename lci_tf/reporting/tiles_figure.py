"""Images, and below them the same with their tiles permuted and the seams inpainted."""

from matplotlib.figure import Figure

from lci_tf.errors import InputError
from lci_tf.plotting import panels
from lci_tf.plotting.pictures import levels
from lci_tf.reporting.examples import first_batch, learner
from lci_tf.reporting.materials import Materials, PaperFigure

_SHOWN = 6


def draw(materials: Materials) -> dict[str, Figure]:
    if not materials.settings.trains_seams:
        raise InputError(f"--run_dir={materials.run.path}: inpaints no seams; give a run with --transforms=tiles")
    seams, batch = materials.once(learner), materials.once(first_batch)
    _, permuted = seams.inpaint(batch["image"], batch["draws"], training=False)
    return {"tiles": panels.table([levels(images.numpy()[:_SHOWN]) for images in (batch["image"], permuted.filled)])}


TILES = PaperFigure(draw)
