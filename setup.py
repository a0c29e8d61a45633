"""Packaging: everything comes from settings.ini, so that nbdev and pip read one file."""
from configparser import ConfigParser
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

here = Path(__file__).parent
parser = ConfigParser(delimiters=['='], interpolation=None)
parser.read(here/'settings.ini', encoding='utf-8')
settings = parser['DEFAULT']
readme = here/'README.md'
extras = {name: settings[f'{name}_requirements'].split() for name in ('lab', 'dev', 'vllm', 'ray', 'milvus')}
extras['dev'] += extras['lab']


class WithNotebooks(build_py):
    "A wheel carries the notebooks that `factlab reproduce` and `factlab train` run, as factlab.core.core.notebooks_dir expects them."

    def run(self):
        super().run()
        if self.editable_mode: return  # what is installed so runs those of the checkout
        for source in sorted(path for part in ('papers', 'train') for path in (here/'nbs'/part).rglob('*.ipynb')):
            place = Path(self.build_lib)/'factlab'/'notebooks'/source.relative_to(here/'nbs')
            self.mkpath(str(place.parent))
            self.copy_file(str(source), str(place))


setup(
    name=settings['lib_name'],
    version=settings['version'],
    description=settings['description'],
    long_description=readme.read_text(encoding='utf-8') if readme.exists() else '',
    long_description_content_type='text/markdown',
    author=settings['author'],
    url=settings['git_url'],
    license='Apache-2.0',
    python_requires=f">={settings['min_python']}",
    packages=find_packages(include=['factlab', 'factlab.*']),
    package_data={'factlab': ['**/assets/**/*', 'studies/*/*.csv', '**/*.pyi', 'py.typed']},
    install_requires=settings['requirements'].split(),
    extras_require=extras,
    cmdclass={'build_py': WithNotebooks},
    entry_points={'console_scripts': settings['console_scripts'].split('\n')},
)
