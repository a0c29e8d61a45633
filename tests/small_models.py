"""Small models with random weights, and a tokenizer of words: architectures are proved on them."""
from pathlib import Path

import numpy as np

WORDS = 'the otter heron owl eats hunts fish crabs at dawn in shallow water and rests by rivers never .'.split()
FORM_WORDS = 'predict: premise: hypothesis: 0 1'.split()
MARKS = {'T5': ('<pad>', '</s>', '<unk>'), 'Roberta': ('<s>', '<pad>', '</s>', '<unk>'), 'Bert': ('[PAD]', '[UNK]', '[CLS]', '[SEP]'),
         'DebertaV2': ('[PAD]', '[UNK]', '[CLS]', '[SEP]')}


def words_tokenizer(kind: str, words=(*WORDS, *FORM_WORDS), split='WhitespaceSplit', **more):
    "A tokenizer of words with the special tokens of an architecture."
    import transformers
    from tokenizers import Tokenizer, pre_tokenizers
    from tokenizers.models import WordLevel
    from tokenizers.processors import TemplateProcessing
    marks = MARKS[kind]
    vocabulary = {word: at for at, word in enumerate([*marks, *words])}
    unknown = next(mark for mark in marks if 'unk' in mark.lower())
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token=unknown))
    tokenizer.pre_tokenizer = getattr(pre_tokenizers, split)()
    if kind == 'T5': names, single, pair = dict(pad_token='<pad>', eos_token='</s>'), '$A </s>', '$A </s> $B </s>'
    elif kind == 'Roberta':
        names = dict(bos_token='<s>', eos_token='</s>', sep_token='</s>', cls_token='<s>', pad_token='<pad>')
        single, pair = '<s> $A </s>', '<s> $A </s> </s> $B </s>'
    else:
        names = dict(cls_token='[CLS]', sep_token='[SEP]', pad_token='[PAD]') | ({'eos_token': '[SEP]'} if kind == 'DebertaV2' else {})
        single, pair = '[CLS] $A [SEP]', '[CLS] $A [SEP] $B:1 [SEP]:1'
    tokenizer.post_processor = TemplateProcessing(single=single, pair=pair, special_tokens=[(mark, vocabulary[mark]) for mark in marks])
    inputs = ['input_ids', *['token_type_ids']*(kind == 'Bert'), 'attention_mask']
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token=unknown, model_input_names=inputs, **names, **more)


def save_t5(folder: Path, *, words=(*WORDS, *FORM_WORDS), seed=4) -> Path:
    import torch
    import transformers
    tokenizer = words_tokenizer('T5', words)
    torch.manual_seed(seed)
    config = transformers.T5Config(vocab_size=len(tokenizer), d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2,
                                   decoder_start_token_id=0, initializer_factor=2.0)
    transformers.T5ForConditionalGeneration(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_encoder(folder: Path, kind: str, task: str, tokenizer, labels, *, positions: int, seed: int, spread: float, **own) -> Path:
    "A random encoder with a head and its tokenizer, saved as a user's folder would be."
    import torch
    import transformers
    names = {} if labels is None else dict(id2label=dict(enumerate(labels)), label2id={label: at for at, label in enumerate(labels)})
    common = dict(vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
                  max_position_embeddings=positions, initializer_range=spread, pad_token_id=tokenizer.pad_token_id)
    torch.manual_seed(seed)
    getattr(transformers, f'{kind}For{task}')(getattr(transformers, f'{kind}Config')(**common, **names, **own)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_classifier(folder: Path, kind: str, labels, *, positions=64, seed=1, spread=1.0, tokenizer=None) -> Path:
    relative = dict(relative_attention=True, position_buckets=16, pos_att_type=['p2c', 'c2p'], type_vocab_size=0,
                    position_biased_input=False)
    return save_encoder(folder, kind, 'SequenceClassification', tokenizer or words_tokenizer(kind), labels, positions=positions, seed=seed,
                        spread=spread, **(relative if kind == 'DebertaV2' else {}))


def save_llama(folder: Path, marks: list[str], words: list[str], *, positions: int, **more):
    "A random Llama; its tokenizer, whose last mark ends a text."
    import torch
    import transformers
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    tokenizer = Tokenizer(WordLevel({word: at for at, word in enumerate(['<unk>', *marks, *WORDS, *words])}, unk_token='<unk>'))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token='<unk>', eos_token=marks[-1], pad_token=marks[-1],
                                                extra_special_tokens=marks[:-1])
    for name, value in more.items(): setattr(fast, name, value)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(vocab_size=len(fast), hidden_size=16, intermediate_size=32, num_hidden_layers=2, bos_token_id=None,
                                      num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=positions,
                                      initializer_range=.5, eos_token_id=fast.eos_token_id)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    fast.save_pretrained(folder)
    return fast


def sentence(generator, n) -> str: return ' '.join(generator.choice(WORDS[:-1], n))


def some_pairs(n=12) -> list[tuple[str, str]]:
    generator = np.random.default_rng(0)
    return [(sentence(generator, 1 + 5*(at % 7)), sentence(generator, 1 + at % 6)) for at in range(n)]
