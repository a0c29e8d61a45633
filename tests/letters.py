"An encoder for tests: no model, and near texts are near."
import numpy as np


class Letters:
    "An encoder whose vectors count letters."
    identity = {'encoder': 'letters'}

    def encode(self, texts, store=None):
        counts = np.array([[text.lower().count(chr(97 + at)) for at in range(26)] for text in texts], np.float32)
        return counts/np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1e-9)
