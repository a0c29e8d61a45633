"""Packaging: everything comes from settings.ini, so that nbdev and pip read one file."""
from configparser import ConfigParser
from pathlib import Path

from setuptools import find_packages, setup

here = Path(__file__).parent
parser = ConfigParser(delimiters=['='], interpolation=None)
parser.read(here/'settings.ini', encoding='utf-8')
settings = parser['DEFAULT']
readme = here/'README.md'

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
    extras_require={'dev': settings['dev_requirements'].split(), 'vllm': settings['vllm_requirements'].split(),
                    'ray': settings['ray_requirements'].split(), 'milvus': settings['milvus_requirements'].split()},
    entry_points={'console_scripts': settings['console_scripts'].split('\n')},
)
