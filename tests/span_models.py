"""Small random token classifiers with tokenizers of their own, saved as a user's folder would be."""
from pathlib import Path

from small_models import save_encoder, words_tokenizer

WORDS = 'the otter heron owl eats hunts fish crabs at dawn in shallow water and rests by rivers never . café'.split()


def byte_tokenizer(texts):
    "A byte-level tokenizer as ModernBERT's: NFC, a space belongs to the word behind it."
    import transformers
    from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers, trainers
    from tokenizers.models import BPE
    from tokenizers.processors import TemplateProcessing
    tokenizer = Tokenizer(BPE())
    tokenizer.normalizer, tokenizer.decoder = normalizers.NFC(), decoders.ByteLevel()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    marks = ['[PAD]', '[UNK]', '[CLS]', '[SEP]']
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=340, special_tokens=marks, show_progress=False,
                                                             initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.post_processor = TemplateProcessing(single='[CLS] $A [SEP]', pair='[CLS] $A [SEP] $B [SEP]',
                                                  special_tokens=[('[CLS]', 2), ('[SEP]', 3)])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token='[PAD]', unk_token='[UNK]', cls_token='[CLS]',
                                                sep_token='[SEP]', model_input_names=['input_ids', 'attention_mask'])


def word_tokenizer(): return words_tokenizer('Bert', WORDS, 'Whitespace')


def save_spans(folder: Path, kind: str, *, labels=None, positions=256, seed=1) -> Path:
    "A random token classifier, saved as a user's folder would be."
    tokenizer = word_tokenizer() if kind == 'Bert' else byte_tokenizer([' '.join(WORDS)]*9)
    own = {} if kind == 'Bert' else dict(bos_token_id=2, eos_token_id=3, cls_token_id=2, sep_token_id=3, local_attention=16,
                                         initializer_cutoff_factor=3.)
    return save_encoder(folder, kind, 'TokenClassification', tokenizer, labels, positions=positions, seed=seed, spread=1., **own)
