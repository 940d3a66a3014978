"""Training curves, of one run or of several."""

from matplotlib.figure import Figure

from lci_tf.plotting import curves
from lci_tf.reporting.materials import Materials, PaperFigure
from lci_tf.runs import Run


def draw(materials: Materials) -> dict[str, Figure]:
    shown = [materials.run, *map(Run, materials.compare_run_dir)]
    names = [run.path.name for run in shown]
    logged = {}
    for run, name in zip(shown, names, strict=True):
        run.flags()  # refuses what is no run
        logged[name if names.count(name) == 1 else str(run.path)] = run.metrics()
    return {"curves": curves.curves(logged)}


CURVES = PaperFigure(draw, images=None, shows_weights=False)
