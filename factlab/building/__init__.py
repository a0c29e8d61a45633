"""Making benchmarks: generated texts and their rules, injected hallucinations, entities described from Wikidata."""
import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
