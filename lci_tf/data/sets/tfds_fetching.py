"""Downloads and prepares a data set with tensorflow-datasets (tfds), if its hosts can be reached.

Without a network, tfds keeps trying for minutes; so this first checks, within seconds, whether the hosts answer.
"""

import contextlib
import io
import logging
import pathlib
import queue
import threading
import time
from collections.abc import Collection, Iterator
from urllib.parse import urlsplit

from lci_tf.data.sets import tfds_sets

_PATIENCE = 4.0  # seconds to wait for an answer
log = logging.getLogger("lci_tf")


def fetch(name: str, place: pathlib.Path) -> None:
    """Downloads and prepares a data set in `place`; archives in its `downloads/manual` are not downloaded.

    Raises:
      NotPrepared: no host answers, archives that must be downloaded by hand are missing, or tfds fails.
    """
    place.mkdir(parents=True, exist_ok=True)
    with _one_at_a_time(place / f".{name.replace('/', '_')}.lock", name):
        builder = tfds_sets.builder_of(name, place)
        if not builder.is_prepared():
            _announce(builder, name, place)
            _prepare(builder, name, place)


def _announce(builder, name, place):
    """Logs in a line what is about to happen; raises if it cannot succeed."""
    if builder.MANUAL_DOWNLOAD_INSTRUCTIONS and not _is_in_manual(name, place):
        raise tfds_sets.NotPrepared(name, place, ", and cannot be downloaded automatically", " and try again")
    missing = {} if builder.MANUAL_DOWNLOAD_INSTRUCTIONS else _missing(builder, name, place)
    urls_by_host = {urlsplit(url).hostname: url for url in missing if url.startswith("http")}
    hosts = ", ".join(urls_by_host)
    if urls_by_host and (why := _why_no_host_answers(urls_by_host.values())):
        reason = f", and cannot be downloaded from {hosts} ({why})"
        raise tfds_sets.NotPrepared(name, place, reason, ", or have network access, and try again")
    if hosts:
        # If there are several configurations, it is unknown which of them needs which archive.
        is_sure = name in tfds_sets.ARCHIVES or not builder.BUILDER_CONFIGS
        total = sum(info.size for info in missing.values())
        size = (f"{total / 1e9:.1f} GB " if total >= 1e9 else f"{total / 1e6:.1f} MB ") if is_sure else ""
        log.info("downloading %s, %sfrom %s, to %s; --nodownload forbids it", name, size, hosts, place)
    else:
        log.info("preparing %s in %s; --nodownload forbids it", name, place)


def _prepare(builder, name, place):
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # tfds would repeat what was just announced
            builder.download_and_prepare(download_dir=place / "downloads")
    except Exception as error:  # the network, the disk, a checksum, tfds's own assertions on manual archives
        why = f", as tensorflow-datasets failed ({type(error).__name__}: {tfds_sets.first_line(error)[:200]})"
        raise tfds_sets.NotPrepared(name, place, why, " and try again") from error


def _is_in_manual(name, place):
    manual = tfds_sets.manual_dir(place)
    found = {path.name for path in manual.iterdir()} if manual.is_dir() else set()
    return bool(found & set(tfds_sets.ARCHIVES.get(name, found)))


def _missing(builder, name, place):
    """The files that must be downloaded, as far as tfds knows in advance: URL -> tfds's `UrlInfo`."""
    wanted = builder.url_infos or {}
    if name in tfds_sets.ARCHIVES:
        wanted = {url: info for url, info in wanted.items() if info.filename in tfds_sets.ARCHIVES[name]}
    # Next to each file that it has downloaded, tfds notes its URL.
    notes = "".join(path.read_text() for path in (place / "downloads").glob("*.INFO"))
    manual = tfds_sets.manual_dir(place)
    in_manual = [url for url, info in wanted.items() if info.filename and (manual / info.filename).exists()]
    return {url: info for url, info in wanted.items() if url not in in_manual and url not in notes}


def _why_no_host_answers(urls: Collection[str]) -> str | None:
    """Why none of these URLs can be reached; None as soon as one can. Uses the same proxies as tfds."""
    answers: queue.Queue[str | None] = queue.Queue()
    for url in urls:  # in threads that are not waited for: looking up a name may take a minute
        threading.Thread(target=lambda url=url: answers.put(_why_unreachable(url)), daemon=True).start()
    deadline, why = time.monotonic() + _PATIENCE, None
    for _ in urls:
        try:
            said = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            return why or f"no answer within {_PATIENCE:g} seconds"
        if said is None:
            return None
        why = said
    return why


def _why_unreachable(url):
    import requests

    try:
        with requests.get(url, stream=True, timeout=_PATIENCE) as response:
            return None if response.ok else f"it answers {response.status_code}"
    except requests.Timeout:
        return f"no answer within {_PATIENCE:g} seconds"
    except (requests.RequestException, OSError) as error:
        return f"no connection: {type(error).__name__}"


@contextlib.contextmanager
def _one_at_a_time(lock: pathlib.Path, name: str) -> Iterator[None]:
    """A lock, so that two commands that start at the same time do not download the same data set twice."""
    import fcntl

    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log.info("another process is downloading %s; waiting for it", name)
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            log.info("%s: this file system has no locks; make sure that no other process downloads it too", lock.parent)
        yield
