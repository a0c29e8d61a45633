"Parts that answer the same to everything."
import numpy as np


class Always:
    "A verifier that finds the same probabilities for every pair."
    def __init__(self, name: str, *row: float): self.name, self.identity, self.row = name, {'verifier': name}, np.array([row], np.float32)
    def probabilities(self, pairs, store=None): return np.tile(self.row, (len(pairs), 1))


class Flat:
    "An encoder to which all texts are alike."
    def encode(self, texts, store=None): return np.ones((len(texts), 2))
