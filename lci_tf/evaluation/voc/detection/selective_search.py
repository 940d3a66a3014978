"""Region proposals by OpenCV's selective search (Uijlings et al., 2013), kept on disk.

The settings are those of R-CNN's "fast" mode: segmentations at k = 50 and 100 after a blur of 0.8, in HSV and Lab.
Boxes with a side below 20 pixels, in an image 500 pixels wide, are left out. Nothing here imports TensorFlow, because
every search process would have to import it too.
"""

import concurrent.futures
import contextlib
import hashlib
import importlib.util
import multiprocessing
import os
import pathlib
from collections.abc import Sequence

import numpy as np
from tqdm import tqdm

from lci_tf.errors import InputError

_FIRST_K, _STEP_K, _SIGMA = 50, 50, 0.8
_LEAST_SIDE = 20 / 500  # share of the image's width
MOST = 2000  # proposals per image, as in Fast R-CNN
_SETTINGS = repr((_FIRST_K, _STEP_K, _SIGMA, _LEAST_SIDE, MOST)).encode()


def search(paths: Sequence[pathlib.Path], cache: pathlib.Path, processes: int | None = None) -> list[np.ndarray]:
    """Finds proposals in image files: float32 [n, 4] for each, see `boxes`, at most `MOST`.

    They are kept in the folder `cache`, in a file per image that is named after the image's contents. So an interrupted
    search can resume, and an image that has changed is searched again.

    Args:
      processes: number of processes, by default one for each processor.
    """
    cache.mkdir(parents=True, exist_ok=True)
    kept = [cache / f"{_digest(path)}.npy" for path in paths]
    # By cache file, as a split may contain the same photograph twice.
    missing = {place: path for place, path in zip(kept, paths, strict=True) if not place.is_file()}
    if missing:
        if importlib.util.find_spec("cv2") is None:
            raise InputError("selective search needs OpenCV: pip install 'lci_tf[detection]', or give --proposals")
        _search_all(missing, processes or os.cpu_count() or 1)
    return [_load(place, path) for place, path in zip(kept, paths, strict=True)]


def _search_all(missing, processes):
    # Spawned, because forks of a process with TensorFlow's threads may hang.
    context = multiprocessing.get_context("spawn")
    bar = tqdm(total=len(missing), desc="selective search", unit=" images", dynamic_ncols=True)
    pool = concurrent.futures.ProcessPoolExecutor(min(processes, len(missing)), context)
    with bar, pool:
        tasks = [pool.submit(search_one, path, place) for place, path in missing.items()]
        try:
            for task in concurrent.futures.as_completed(tasks):
                if why := task.result():
                    raise InputError(why)
                bar.update()
        except concurrent.futures.process.BrokenProcessPool:
            raise InputError("selective search: a process was killed, perhaps for lack of memory; started again, it "
                             "resumes; --processes=1 needs the least memory") from None  # fmt: skip
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def search_one(path: pathlib.Path, place: pathlib.Path) -> str | None:
    """Searches one image and writes the proposals to `place`. Returns an error message if it cannot be read."""
    import cv2

    cv2.setNumThreads(1)  # the processes share the processors
    image: np.ndarray | None = cv2.imread(str(path), cv2.IMREAD_COLOR)
    if image is None:
        return f"{path}: OpenCV cannot read this image"
    beside = place.with_name(f".{place.name}.{os.getpid()}")
    with beside.open("wb") as file:
        np.save(file, _proposals(image, cv2))
    beside.replace(place)
    return None


def _proposals(image, cv2):
    """Proposals in an image, float32 [n, 4]; the whole image if it has a single colour."""
    height, width, _ = image.shape
    found = np.zeros([0, 4], np.int32)
    with contextlib.suppress(cv2.error):  # there is only one segment
        search = cv2.ximgproc.segmentation.createSelectiveSearchSegmentation()
        search.setBaseImage(image)
        search.switchToSelectiveSearchFast(_FIRST_K, _STEP_K, _SIGMA)
        found = np.reshape(search.process(), [-1, 4])
    found = found[found[:, 2:].min(axis=1, initial=width) >= _LEAST_SIDE * width][:MOST]
    if not len(found):
        found = np.array([[0, 0, width, height]])
    return np.concatenate([found[:, :2], found[:, :2] + found[:, 2:] - 1], axis=1).astype(np.float32)


def _digest(path):
    return hashlib.sha256(_SETTINGS + path.read_bytes()).hexdigest()[:32]


def _load(place, path):
    try:
        return np.load(place)
    except (ValueError, EOFError):
        raise InputError(f"{place}: the proposals kept for {path} are damaged; delete the file") from None
