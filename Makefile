# `make demo` and `make test` do everything on a fresh machine with Python >= 3.11, git and make.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PACKAGE := src/gpu_device_plugin
APIS   := deviceplugin podresources

.DEFAULT_GOAL := help
.PHONY: help setup demo test check lint types layers docs bench proto proto-check torture lock clean \
	image deployment-tools genuine

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## Make the virtual environment with locked dependencies

$(READY): requirements-dev.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	$(BIN)/python -m compileall -q $(PACKAGE)
	@touch $@

demo: $(READY) ## Watch the device plugin at work on a simulated DGX
	@$(BIN)/gpu-node demo

test: $(READY) ## Run all tests, with coverage
	$(BIN)/python -m pytest -n auto --cov --cov-report=term $(PYTEST_ARGS)

check: lint types layers proto-check docs test ## Everything that CI checks

lint: $(READY) ## Check style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY) ## Check types
	$(BIN)/mypy

layers: $(READY) ## Check that imports go down the layers
	$(BIN)/lint-imports

docs: $(READY) ## Check that generated documentation is current
	@for tool in tools/generate_*.py; do $(BIN)/python $$tool --check || exit 1; done

bench: $(READY) ## Measure speed and memory, each against a floor of the same run
	@for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

proto: $(READY) ## Generate the kubelet API's messages
	cd $(PACKAGE)/kubelet && PATH="$(CURDIR)/$(BIN):$$PATH" $(CURDIR)/$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --mypy_out=. $(APIS:=.proto)

proto-check: $(READY) ## Check that the generated messages are current
	@rm -rf build/proto && mkdir -p build/proto
	@cd $(PACKAGE)/kubelet && PATH="$(CURDIR)/$(BIN):$$PATH" $(CURDIR)/$(BIN)/python -m grpc_tools.protoc -I. --python_out=$(CURDIR)/build/proto --mypy_out=$(CURDIR)/build/proto $(APIS:=.proto) 2>/dev/null
	@for file in $(APIS:=_pb2.py) $(APIS:=_pb2.pyi); do cmp build/proto/$$file $(PACKAGE)/kubelet/$$file || exit 1; done

torture: $(READY) ## Ten minutes of kubelet restarts, reloads and dropped streams
	$(BIN)/python -m pytest -p no:randomly -m torture -s tests/torture $(PYTEST_ARGS)

image: $(READY) ## Build the image, by a container engine or as an archive
	$(BIN)/python tools/build_image.py $(ENGINE)

deployment-tools: $(READY) ## Get helm and the Kubernetes schemas for tests/deployment
	$(BIN)/python tools/build_deployment_tools.py

genuine: ## Build parts of Kubernetes for the tests; needs Go
	mkdir -p build
	cd tests/genuine && go build -o $(CURDIR)/build/kubelet-device-manager ./devicemanager
	cd tests/genuine && go build -o $(CURDIR)/build/kube-apiserver -ldflags \
		"-X k8s.io/component-base/version.gitVersion=$$(go list -m -f '{{.Version}}' k8s.io/kubernetes)" \
		k8s.io/kubernetes/cmd/kube-apiserver

lock: $(READY) ## Lock the newest allowed dependencies, with hashes
	$(BIN)/python tools/lock.py

clean: ## Remove everything that was generated
	rm -rf $(VENV) build dist .coverage* .hypothesis .mypy_cache .pytest_cache .ruff_cache src/*.egg-info
