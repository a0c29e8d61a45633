"""Small random token classifiers with tokenizers of their own, saved as a user's folder would be."""
from pathlib import Path

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


def word_tokenizer():
    import transformers
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing
    tokenizer = Tokenizer(WordLevel({word: at for at, word in enumerate(['[PAD]', '[UNK]', '[CLS]', '[SEP]', *WORDS])}, unk_token='[UNK]'))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(single='[CLS] $A [SEP]', pair='[CLS] $A [SEP] $B:1 [SEP]:1',
                                                  special_tokens=[('[CLS]', 2), ('[SEP]', 3)])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token='[PAD]', unk_token='[UNK]', cls_token='[CLS]',
                                                sep_token='[SEP]', model_input_names=['input_ids', 'token_type_ids', 'attention_mask'])


def save_spans(folder: Path, kind: str, *, labels=None, positions=256, seed=1) -> Path:
    "A random token classifier, saved as a user's folder would be."
    import torch
    import transformers
    tokenizer = word_tokenizer() if kind == 'Bert' else byte_tokenizer([' '.join(WORDS)]*9)
    names = {} if labels is None else dict(id2label=dict(enumerate(labels)), label2id={label: at for at, label in enumerate(labels)})
    common = dict(vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
                  max_position_embeddings=positions, initializer_range=1., pad_token_id=tokenizer.pad_token_id)
    own = {} if kind == 'Bert' else dict(bos_token_id=2, eos_token_id=3, cls_token_id=2, sep_token_id=3, local_attention=16,
                                         initializer_cutoff_factor=3.)
    torch.manual_seed(seed)
    model = getattr(transformers, f'{kind}ForTokenClassification')(getattr(transformers, f'{kind}Config')(**common, **own, **names))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
