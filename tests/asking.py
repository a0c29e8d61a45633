"""What the tests of endpoints ask with."""
from factlab.models.interface import Request, ask
from factlab.models.openai_backend import load_openai

QUICK = {'timeout': '5'}


def model_at(url: str, name: str = 'any', **options):
    options = QUICK | {name: str(value) for name, value in options.items()}
    return load_openai(f'openai:{name}', name, {'base_url': url, **options})


def question(text: str = '?', **fields) -> Request: return Request(messages=[dict(role='user', content=text)], **fields)

def questions(count: int, **fields) -> list[Request]: return [question(f'question {i}', **fields) for i in range(count)]

def one(server, text: str = 'hello', request: Request|None = None, **options):
    return ask([request or question(text)], model_at(server.url, **options), store=False)[0]


def answers(model, requests: list[Request]) -> list:
    "What the backend itself gives, without the store."
    found = {}
    model.generate(requests, found.__setitem__)
    return [found[index] for index in range(len(requests))]
