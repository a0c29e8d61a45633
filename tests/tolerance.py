"""How far two ways through one float32 network may lie apart. Sums are taken in another order on another processor, and each layer hands
its rounding on:
a relative 1e-3 of the logits is what the arithmetic promises, on any of them."""
import numpy as np

NETWORK = 1e-3


def largest_gap(found, expected) -> float:
    return float(np.abs(np.asarray(found, np.float64) - np.asarray(expected, np.float64)).max(initial=0))


def same_logits(found, expected) -> bool:
    "Also hidden states and log-probabilities, which have the logits' size: up to 1e-3 of the largest one."
    return np.shape(found) == np.shape(expected) and largest_gap(found, expected) <= NETWORK * max(
        1, np.abs(np.asarray(expected)).max(initial=0)
    )


def same_probabilities(found, expected) -> bool:
    "A probability moves by at most a quarter of what its logit moves by; logits of such heads stay under 4."
    return np.shape(found) == np.shape(expected) and largest_gap(found, expected) <= NETWORK


def same_vectors(found, expected) -> bool:
    "Rows are vectors: the length of their difference is at most 1e-3 of their own."
    found, expected = np.asarray(found), np.asarray(expected)
    return found.shape == expected.shape and bool(
        (np.linalg.norm(found - expected, axis=-1) <= NETWORK * np.linalg.norm(expected, axis=-1)).all()
    )
