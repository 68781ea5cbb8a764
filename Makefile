# make serve | site | book | live LANG=pt | test | check PAGE=folder/page | audit | html
#      record | agree | sentences | words | bench | behaviours | frames | gpu | lowest | format | clean
PORT ?= 8000
BIN := .venv/bin
export PYTHON
export PYTHONUTF8 = 1
# Python 3.11 reads the name of this folder, which .venv notes, in the locale's encoding: with an
# accent in it no program of .venv starts in a locale of ASCII. This one differs in nothing else.
ifneq ($(filter C POSIX,$(LC_ALL)),)
  export LC_ALL := C.UTF-8
endif
export NO_MKDOCS_2_WARNING = 1
# LANG on the command line is the language of `make live`; the one in the environment is a locale.
ifeq ($(origin LANG),command line)
  LANGUAGE := $(LANG)
else
  LANGUAGE := pt
endif
unexport LANG MAKEFLAGS

.PHONY: serve site book live test check audit html record agree sentences words bench behaviours frames gpu lowest format clean
.DEFAULT_GOAL := serve

# What builds the site does without PyTorch.
.venv/site: pyproject.toml constraints.txt book/make/setup.sh
	@sh book/make/setup.sh docs $@

.venv/ready: pyproject.toml constraints.txt book/make/setup.sh
	@sh book/make/setup.sh test .venv/site $@

serve: .venv/site  ## build both languages and serve them
	@$(BIN)/python -m book.make.serve serve --port $(PORT)

site: .venv/site  ## build both languages into site/
	@$(BIN)/python -m book.make.serve build

book: .venv/ready  ## the whole book in each language as PDF, and as a zip that opens from a disk
	@$(BIN)/python -m book.make.volumes

live: .venv/site  ## rebuild one language while it is written
	@$(BIN)/python -m book.make.serve live --language $(LANGUAGE) --port $(PORT)

test: .venv/ready  ## lint, types, every test but those of an audit
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	($(BIN)/mypy && $(BIN)/lint-imports --no-cache) & types=$$!; \
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist worksteal $(ARGS); \
	tests=$$?; wait $$types && exit $$tests

check: .venv/ready  ## the contracts of all pages, or all of one: make check PAGE=foundations/dropout
	@OMP_NUM_THREADS=1 $(BIN)/python -m book.make.check "$(PAGE)"

# What takes longer than its catch is worth at every landing: before a release.
audit: .venv/ready $(if $(CLAIM),,site)  ## all tests, coverage, html, and claims whose test notices nothing
	@export OMP_NUM_THREADS=1; status=0; $(if $(CLAIM),,\
	$(BIN)/pytest -n auto --dist worksteal --audit --cov --cov-report=term || status=$$?; \
	$(BIN)/python -m book.make.validity || status=$$?; \
	$(BIN)/python -m book.make.other_engine || status=$$?;) \
	$(BIN)/python -m book.make.audit $(CLAIM) && exit $$status

html: site  ## list what is not valid in the site's HTML
	@$(BIN)/python -m book.make.validity

record: .venv/ready  ## run what has changed of snippets and figures, or those of PAGE
	@$(BIN)/python -m book.make.record $(PAGE)

agree: .venv/ready  ## note that both languages of the changed pages, or of PAGE, say the same
	@$(BIN)/python -m book.make.agree $(PAGE)

sentences: .venv/ready  ## bring the catalogues of attnref/locale to what the commands say
	@$(BIN)/python -m book.make.sentences

words: .venv/ready  ## how much prose each page has
	@$(BIN)/python -m book.make.words

# The peers are libraries of others, which nothing else needs.
.venv/peers: .venv/ready
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[peers]'
	@touch $@

bench: .venv/peers  ## measure variants and peers, and write docs/results, or those of RECORD
	@$(BIN)/python -m book.make.bench $(RECORD)

.venv/behaviours: .venv/ready
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[behaviours]'
	@touch $@

behaviours: .venv/behaviours  ## ask attention functions of all projects, and write docs/behaviours
	@$(BIN)/python -m book.make.behaviours

frames: .venv/ready site  ## drag each explorer on a slow processor, and count its frames
	@$(BIN)/python -m book.make.frames $(NAME)

# Installs nothing: a machine with a GPU has its PyTorch, and what else is wanted is in the tree.
gpu:  ## run the package on a GPU in eight minutes, and record it; DEVICE=cpu tries that out here
	@$(if $(wildcard $(BIN)/python),$(BIN)/python,$(or $(PYTHON),python3)) -m book.make.gpu \
	--device $(or $(DEVICE),cuda) $(if $(OUT),--output $(OUT))

lowest:  ## install the lowest versions that pyproject.toml allows, and run the commands
	@$(or $(PYTHON),python3) -m book.make.lowest

format: .venv/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv site site.lock dist .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
