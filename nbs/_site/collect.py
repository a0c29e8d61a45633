"Collects the pages of the site: the repository's notebooks and texts at their own paths, their links rewritten to what the site has."
import html
import json
import os
import re
import shutil
import sys
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import reference
from reference import Module, read_modules

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))
from factlab.core.glossary import meaning  # noqa: E402  of this checkout

PARTS = tomllib.loads((HERE/'packages.toml').read_text(encoding='utf-8'))
SOURCE = 'https://github.com/factlab/factlab/tree/main'  # where folders that are no pages can be seen
TEXTS = {
    'README.md': 'index.md',
    '.github/CONTRIBUTING.md': 'CONTRIBUTING.md',
    'CHANGELOG.md': 'CHANGELOG.md',
    'figures/README.md': 'figures/README.md',
    'figures/audit.md': 'figures/audit.md',
}
FOLDERS = {'nbs': 'nbs/index.md', 'factlab': 'reference/index.md', 'figures': 'figures/README.md', 'nbs/index.ipynb': 'index.md',
           'factlab/models/assets/adapters': 'nbs/train/index.md'}


@dataclass
class Collection:
    "The pages' folder while it is filled."
    folder: Path
    modules: dict[str, Module] = field(default_factory=lambda: read_modules(ROOT))
    broken: list[str] = field(default_factory=list)  # links that lead nowhere
    parts: dict[str, list[str]] = field(default_factory=dict)  # what stands beside every page, by caption

    def __post_init__(self):
        owners = Counter(name for module in self.modules.values() for name in module.names)
        self.known = {name: f'factlab.{module.name}.{name}' for module in self.modules.values() for name in dict(module.defined())
                      if owners[name] == 1 and ('_' in name or not name.islower() and not name.isupper())}
        for module in self.modules.values():
            module.links = self.known | {name: f'factlab.{module.name}.{name}' for name in dict(module.defined())}
        self.by_chapter = {module.chapter: module for module in self.modules.values()}
        self.folders = FOLDERS | {
            str(path.relative_to(ROOT)): f'{path.relative_to(ROOT)}/index.md' for path in (ROOT / 'nbs').rglob('*') if path.is_dir()
        }
        self.texts = TEXTS | {
            str(path.relative_to(ROOT)): str(path.relative_to(ROOT)) for path in (ROOT / 'factlab').rglob('assets/adapters/*/README.md')
        }

    def write(self, path: str, text: str) -> None:
        (self.folder/path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder/path).write_text(text, encoding='utf-8')

    # ---- links

    def target(self, link: str, source: str, page: str) -> str:
        "Where a link of the file `source` leads from the site's `page`: another page, a copied file, or the repository's host."
        if re.match(r'[a-z]+:|#|attachment:', link): return link
        address, _, anchor = link.partition('#')
        path = (ROOT/source).parent.joinpath(address).resolve()
        if not path.is_relative_to(ROOT) or not path.exists():
            self.broken.append(f'{source}: {link}')
            return link
        name = str(path.relative_to(ROOT))
        found = self.texts.get(name) or self.folders.get(name) or name
        if path.is_dir() and name not in self.folders: return f'{SOURCE}/{name}'
        if found == name and path.suffix != '.ipynb' and name not in self.texts: self.copy(name)
        relative = os.path.relpath(found, Path(page).parent).replace(os.sep, '/')
        return f'{relative}{"#" + slug(anchor) if anchor else ""}'

    def copy(self, name: str) -> None:
        (self.folder/name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT/name, self.folder/name)

    def text(self, text: str, source: str, page: str) -> str:
        "Markdown with its links rewritten, and with names that the library exports linked to the reference."
        own = self.by_chapter.get(source)
        known = own.links if own else self.known
        def link(found: re.Match) -> str: return f'{found[1]}({self.target(found[2], source, page)}{found[3] or ""})'
        def name(found: re.Match) -> str: return f'{{py:obj}}`{found[1]} <{known[found[1]]}>`' if found[1] in known else found[0]
        def picture(found: re.Match) -> str:  # as an image that Sphinx copies
            return f'[![{found["alt"]}]({self.target(found["src"], source, page)}){{{found["side"]}={found["size"]}px}}]({found["href"]})'
        image = r'<img src="(?P<src>[^"]+)" (?P<side>height|width)="(?P<size>\d+)" alt="(?P<alt>[^"]*)">'
        text = re.sub(rf'<a href="(?P<href>[^"]+)">{image}</a>', picture, text)
        parts = re.split(r'(^```.*?^```[^\n]*$|^~~~.*?^~~~$)', text, flags=re.MULTILINE | re.DOTALL)
        for i in range(0, len(parts), 2):
            parts[i] = re.sub(r'(!?\[(?:[^\[\]]|\[[^\[\]]*\]|!\[[^\]]*\]\([^)]*\))*\])\(([^()\s]+)(\s+"[^"]*")?\)', link, parts[i])
            parts[i] = re.sub(r'(?<![`\[{}\w])`(\w+)`(?![`\]])', name, parts[i])
        return ''.join(parts)

    # ---- pages

    def notebook(self, path: Path) -> None:
        "A notebook as it was committed, without nbdev's directives; import cells are folded."
        source = str(path.relative_to(ROOT))
        notebook = json.loads(path.read_text(encoding='utf-8'))
        module, cells = self.by_chapter.get(source), []
        for cell in notebook['cells']:
            text = ''.join(cell['source'])
            cell['id'] = cell.get('id') or f'cell-{len(cells)}'
            if cell['cell_type'] == 'markdown':
                text = self.text(text, source, source)
                if not cells: text = headed(text, module)
            elif cell['cell_type'] == 'code':
                if re.match(r'#\|\s*(default_exp|hide)\b', text): continue
                exported = bool(re.match(r'#\|\s*export', text))
                text = re.sub(r'^#\|.*\n?', '', text, flags=re.MULTILINE).strip('\n')
                cell['metadata'] = {'tags': ['hide-input']} if only_imports(text) and not cell['outputs'] else {}
                if exported and (
                    anchors := ''.join(f'<div class="factlab-anchor" id="source-{name}"></div>' for name in defined_names(text, module))
                ):
                    cells.append({'cell_type': 'markdown', 'id': f'anchor-{len(cells)}', 'metadata': {}, 'source': anchors})
                for output in cell['outputs']:
                    if 'text/markdown' in output.get('data', {}):
                        output['data']['text/markdown'] = self.text(''.join(output['data']['text/markdown']), source, source)
                    if 'text/html' in output.get('data', {}):
                        output['data']['text/html'] = explained(''.join(output['data']['text/html']), source)
            cells.append(cell | {'source': text})
        notebook |= {
            'cells': cells,
            'nbformat': 4,
            'nbformat_minor': 5,
            'metadata': {
                'kernelspec': {'name': 'python3', 'display_name': 'Python 3', 'language': 'python'},
                'language_info': {'name': 'python', 'pygments_lexer': 'ipython3'},
            },
        }
        self.write(source, json.dumps(notebook))

    def library(self) -> None:
        "The chapters: a page for each package, one for each sub-package."
        folders = sorted(path for path in (ROOT/'nbs').iterdir() if re.match(r'\d\d_', path.name))
        for folder in folders: self.package(folder, 'factlab')
        rows = [
            f'| [{package_of(folder)}]({folder.name}/index.md) | {self.about(folder)} | {", ".join(self.chapters(folder))} |'
            for folder in folders
        ]
        self.write(
            'nbs/index.md',
            '# The library\n\nOne notebook is one module. A package imports only from packages above it in this table, '
            'so it can be read from top to bottom.\n\n'
            '| package | what lives there | chapters |\n|---|---|---|\n' + '\n'.join(rows) + '\n',
        )
        self.parts['Library'] = ['Overview <nbs/index>', *(f'nbs/{folder.name}/index' for folder in folders)]

    def chapters(self, folder: Path) -> list[str]:
        def name(path: Path) -> str: return '.'.join(re.sub(r'^\d+_', '', part) for part in path.relative_to(folder).with_suffix('').parts)
        return [f'[{name(path)}]({path.relative_to(ROOT/"nbs")})' for path in sorted(folder.rglob('*.ipynb'))]

    def about(self, folder: Path) -> str:
        name = package_of(folder)
        init = ROOT/'factlab'/Path(*(re.sub(r'^\d+_', '', part) for part in folder.relative_to(ROOT/'nbs').parts))/'__init__.py'
        if init.is_file() and (said := reference.doc(reference.ast.parse(init.read_text(encoding='utf-8')))): return said.split('\n\n')[0]
        return PARTS['packages'].get(name) or PARTS['papers'].get(name, '')

    def package(self, folder: Path, above: str) -> None:
        "The page of a package: its one line, its chapters with theirs."
        name = f'{above}.{package_of(folder)}'
        entries, rows = [], []
        for path in sorted(folder.iterdir()):
            if path.is_dir() and re.match(r'\d\d_', path.name):
                self.package(path, name)
                entries.append(f'{path.name}/index')
                rows.append((f'[{package_of(path)}]({path.name}/index.md)', self.about(path), ''))
            elif path.suffix == '.ipynb':
                self.notebook(path)
                entries.append(path.stem)
                module = self.by_chapter.get(str(path.relative_to(ROOT)))
                api = f'[reference](/{module.page}.md)' if module else ''
                rows.append((f'[{re.sub(r"^[0-9]+_", "", path.stem)}]({path.name})', lead(path), api))
        page = f'{folder.relative_to(ROOT)}/index.md'
        self.write(
            page,
            f'# {package_of(folder)}\n\n> {self.about(folder)}\n\n`{name}`\n\n'
            + reference.table(rows, ('chapter', 'what it is for', 'names')) + '\n\n' + toctree(entries, hidden=True),
        )

    def group(self, folder: Path, title: str, said: str, more: tuple[str, ...] = ()) -> None:
        "The page of a folder of notebooks that export nothing."
        def place(path: Path) -> tuple[int, list]:  # lessons say their number themselves; other notebooks go by name
            number = re.search(r'Lesson (\d+) of', path.read_text(encoding='utf-8'))
            return int(number[1]) if number else 0, [int(part) if part.isdigit() else part for part in re.split(r'(\d+)', path.stem)]
        notebooks = sorted(folder.glob('*.ipynb'), key=place)
        for path in notebooks: self.notebook(path)
        rows = [(f'{place(path)[0] or ""} [{path.stem.replace("_", " ")}]({path.name})'.strip(), lead(path)) for path in notebooks]
        self.write(
            f'{folder.relative_to(ROOT)}/index.md',
            f'# {title}\n\n> {said}\n\n{reference.table(rows, ("notebook", "what it shows"))}\n\n'
            + toctree([*(path.stem for path in notebooks), *more], hidden=True),
        )

    def papers(self) -> None:
        folders = [ROOT/'nbs'/'papers'/name for name in PARTS['papers'] if (ROOT/'nbs'/'papers'/name).is_dir()]
        for folder in folders: self.group(folder, PARTS['papers'][folder.name].split(':')[0], PARTS['papers'][folder.name])
        single = sorted((ROOT/'nbs'/'papers').glob('*.ipynb'))
        for path in (*single, *(ROOT/'nbs'/f'{name}.ipynb' for name in ('redo_the_paper', 'glossary'))): self.notebook(path)
        rows = [(f'[{folder.name}]({folder.name}/index.md)', PARTS['papers'][folder.name]) for folder in folders] + [
            (f'[{path.stem}]({path.name})', lead(path)) for path in single
        ]
        self.write(
            'nbs/papers/index.md',
            '# The papers\n\n> One notebook for each table and figure, with what is printed, recomputed and measured.\n\n'
            + reference.table(rows, ('paper', 'what it is about')),
        )
        self.parts['Papers'] = [
            'Overview <nbs/papers/index>',
            'nbs/redo_the_paper',
            *(f'nbs/papers/{folder.name}/index' for folder in folders),
            *(f'nbs/papers/{path.stem}' for path in single),
            'Gallery of results <figures/README>',
            'What the audit found <figures/audit>',
        ]

    def reference(self) -> None:
        "A page for each module, and one that lists them."
        for module in self.modules.values(): self.write(f'{module.page}.md', reference.module_page(module, ROOT))
        parts = [
            '# API reference',
            'Every exported name of every module, from its signature and the comments beside its parameters. '
            'All names are in the {ref}`index <genindex>`.',
        ]
        for package in dict.fromkeys(name.split('.')[0] for name in self.modules):
            rows = [
                (f'[{module.name}]({module.name}.md)', reference.doc(module.tree).split('\n\n')[0])
                for module in self.modules.values()
                if module.name.split('.')[0] == package
            ]
            parts += [
                f'## {package}',
                reference.table(rows, ('module', 'what it is for')),
                toctree([module.name for module in self.modules.values() if module.name.split('.')[0] == package], hidden=True),
            ]
        self.write('reference/index.md', '\n\n'.join(parts))

    def pages(self) -> None:
        "All of them."
        self.library()
        self.papers()
        cards = [path for path in self.texts if '/adapters/' in path]
        for name, said in PARTS['lessons'].items():
            title = {'tutorials': 'Lessons', 'train': 'Training', 'bench': 'Speed'}[name]
            self.group(
                ROOT / 'nbs' / name, title, said, tuple(f'/{path.removesuffix(".md")}' for path in sorted(cards)) if name == 'train' else ()
            )
        self.reference()
        present = {source: page for source, page in self.texts.items() if (ROOT/source).is_file()}
        self.parts['Lessons'] = [f'nbs/{name}/index' for name in PARTS['lessons']]
        self.parts['Reference'] = ['nbs/glossary', 'All modules <reference/index>', 'All names <genindex>']
        self.parts['Project'] = [page.removesuffix('.md') for page in ('CONTRIBUTING.md', 'CHANGELOG.md') if page in present.values()]
        for source, page in present.items():
            text = self.text((ROOT/source).read_text(encoding='utf-8'), source, page)
            if page.startswith('factlab/'): text = re.sub(r'\A---\n.*?\n---\n', '', text, flags=re.DOTALL)
            if page == 'index.md':
                text += '\n' + '\n'.join(toctree(entries, hidden=True, caption=caption) for caption, entries in self.parts.items())
            self.write(page, text)


def toctree(entries: list[str], hidden: bool = False, caption: str = '') -> str:
    return '\n'.join(
        ['```{toctree}', *([':hidden:'] if hidden else []), *([f':caption: {caption}'] if caption else []), *entries, '```', '']
    )


def package_of(folder: Path) -> str: return re.sub(r'^\d+_', '', folder.name)

def slug(anchor: str) -> str: return re.sub(r'[^\w-]', '', anchor.lower().replace('%20', '-'))

def only_imports(text: str) -> bool:
    try: body = reference.ast.parse(text).body
    except SyntaxError: return False
    typing_only = [node for node in body if isinstance(node, reference.ast.If) and 'TYPE_CHECKING' in reference.unparsed(node.test)]
    return bool(body) and all(isinstance(node, reference.ast.Import|reference.ast.ImportFrom) or node in typing_only for node in body)

def explained(table: str, page: str) -> str:
    "HTML whose heads of columns that the glossary has say what they mean, and lead to it."
    glossary = os.path.relpath('nbs/glossary.html', Path(page).parent).replace(os.sep, '/')
    def linked(found: re.Match) -> str:
        word = meaning(html.unescape(found[2]))
        if not word: return found[0]
        attributes = re.sub(r' title="[^"]*"', '', found[1])
        return f'<th{attributes}><a href="{glossary}#{word.anchor}" title="{html.escape(word.tip)}">{found[2]}</a></th>'
    return re.sub(r'<th((?:\s[^<>]*)?)>([^<>]+)</th>', linked, table)

def defined_names(text: str, module: Module|None) -> list[str]:
    try: tree = reference.ast.parse(text)
    except SyntaxError: return []
    return list(dict(Module('', '', tree, {}, module.names).defined())) if module else []

def headed(text: str, module: Module|None) -> str:
    "A chapter's first cell with the way to the reference below its lead."
    if not module: return text
    head, found, rest = text.partition('\n>')
    lead, end, rest = rest.partition('\n\n')
    return (
        f'{head}{found}{lead}\n\n`factlab.{module.name}` · [reference](/{module.page}.md){end}{rest}'
        if found
        else f'{text}\n\n`factlab.{module.name}` · [reference](/{module.page}.md)'
    )


def lead(path: Path) -> str:
    "What a notebook says of itself: the quoted line below its title, or what stands behind the title's name."
    text = ''.join(json.loads(path.read_text(encoding='utf-8'))['cells'][0]['source'])
    if found := re.search(r'^>\s*(.+)$', text, re.MULTILINE): return re.sub(r'\[([^\]]+)\]\([^)]*\)', r'\1', found[1]).replace('|', r'\|')
    title = text.splitlines()[0].lstrip('# ')
    return title.partition(' · ')[2] or title
