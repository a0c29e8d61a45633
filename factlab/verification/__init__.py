"""From evidence and a claim to a verdict."""
import csv
from pathlib import Path

import lazy_loader

from .. import models  # noqa: F401  whose names are verifiers, too
from ..core.registry import Entry, register

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

register('verifiers',
    Entry('mpnet', 'factlab.verification.named_verifiers:load_trained', 'the trained verifier: all-mpnet-base-v2 with LoRA that ships'),
    Entry('nli', 'factlab.verification.named_verifiers:load_nli', 'a classifier of pairs: DeBERTa, RoBERTa, BERT …', 'ORG/NAME',
          like=r'[\w.-]+/[\w.-]+'),
    Entry('seq2seq', 'factlab.verification.seq2seq_verifier:load_seq2seq',
          'an encoder-decoder, with ?form=minicheck or ?form=trueteacher', 'ORG/NAME'),
    Entry('spans', 'factlab.verification.spans:load_spans', "a token classifier of LettuceDetect's kind, which marks spans", 'ORG/NAME'),
    Entry('cosine', 'factlab.verification.named_verifiers:load_cosine', 'likeness of evidence and claim, a baseline', '[ENCODER]',
          nested=True),
    Entry('align', 'factlab.verification.named_verifiers:load_align', "another verifier over chunks and sentences, AlignScore's way",
          'VERIFIER', nested=True),
    Entry('asked', 'factlab.verification.named_verifiers:load_asked', 'a language model, asked in a form: yes-no, true-false, a file …',
          'FORM:MODEL', nested=True),
    Entry('prompt', 'factlab.verification.named_verifiers:load_prompted', 'a language model, asked in the form of LLM-OASIS', 'MODEL',
          nested=True),
    Entry('', 'factlab.verification.named_verifiers:load_prompted', 'the same', 'MODEL', also='models'))

with (Path(__file__).parent/'assets'/'verifiers.csv').open(encoding='utf-8', newline='') as published:
    register('verifiers', *(Entry(row['name'], 'factlab.verification.published:load_published', row['model'], shelved=True)
                            for row in csv.DictReader(published) if row['loads'] != row['name']))
del published

register('extractors',
    Entry('tiny', 'factlab.verification.extraction:load_tiny', 'the trained extractor, which ships with factlab', needs='tiny'),
    Entry('sentences', 'factlab.verification.extraction:load_sentences', 'each sentence is a claim; asks no model'),
    Entry('trained', 'factlab.verification.extraction:load_trained', 'a language model that was trained to extract', 'MODEL', nested=True,
          needs='what the model needs (factlab list models)'),
    Entry('seq2seq', 'factlab.verification.named_extractors:load_seq2seq_extractor', 'an encoder-decoder that was trained to extract',
          'ORG/NAME', needs='weights of the hub or of a folder'),
    Entry('prompt', 'factlab.verification.extraction:load_prompted', 'a language model, asked', 'MODEL', nested=True,
          needs='what the model needs (factlab list models)'),
    Entry('', 'factlab.verification.extraction:load_prompted', 'the same, where MODEL is not tiny', 'MODEL', also='models',
          needs='what the model needs (factlab list models)'))
