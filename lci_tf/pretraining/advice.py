"""Warns, once, when a training shows signs that the game between C, F and D has gone wrong, and says what to change."""

import logging
from typing import NamedTuple

log = logging.getLogger("lci_tf")


class _Sign(NamedTuple):
    """A sign of trouble: for how many consecutive steps it must hold, and the advice to log then."""

    steps: int
    advice: str


_SIGNS = {
    "D is mute": _Sign(
        500,
        "D has said nothing for {steps} steps: its loss is {loss:.2f}, and guessing gives 2; so F paints whatever "
        "fools C. Try --discriminator_pooling=sum, or a higher --discriminator_learning_rate",
    ),
    "F has lost": _Sign(
        300,
        "F has lost against D for {steps} steps: D's loss is {loss:.3f}, so it recognises nearly every patch. Try a "
        "lower --discriminator_learning_rate, a higher --inpainter_learning_rate, or an F that sees more, with more "
        "--inpainter_halvings",
    ),
    "F has run away": _Sign(
        60,
        "F has run away from C: C recognises {accuracy:.0%} of inpainted images, down from {best:.0%}. Try "
        "--adversarial_cosine, with which the rates of F and D fall with C's, or a lower --inpainter_learning_rate",
    ),
}


class Advice:
    """Watches the logged metrics, and logs a line the first time that a sign of trouble has lasted long enough."""

    def __init__(self):
        self._since: dict[str, int] = {}
        self._given: set[str] = set()
        self._best = 0.0

    def note(self, step: int, means: dict[str, float]) -> None:
        """Checks the metrics logged at a step, which are means since the last time."""
        loss, accuracy = means.get("loss/discriminator"), means.get("accuracy/lci")
        if accuracy is not None:
            self._best = max(self._best, accuracy)
        holds = {
            "D is mute": loss is not None and loss > 1.8,
            "F has lost": loss is not None and loss < 0.1,
            "F has run away": accuracy is not None and accuracy < 0.5 and self._best > 0.8,
        }
        for name, sign in _SIGNS.items():
            if not holds[name]:
                self._since.pop(name, None)
                continue
            steps = step - self._since.setdefault(name, step)
            if steps >= sign.steps and name not in self._given:
                self._given.add(name)
                log.warning(sign.advice.format(steps=steps, loss=loss, accuracy=accuracy, best=self._best))
