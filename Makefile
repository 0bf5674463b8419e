# The commands of this project. CI calls `make test` and nothing else.
.DEFAULT_GOAL := help
.PHONY: help demo test check run bench calibration build vendor install install-tests fmt

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
RAMPART    := $(TARGET_DIR)/release/rampart
SERVE      ?= 1
ONLY       ?=
BENCHES    := fill zk_op idle steady sampling calibration overload engine pacing attribution
CALIBRATION := calibration overload engine pacing attribution

# A C compiler for SQLite, Java and ZooKeeper for managed targets, npm for the chart library; for the tests, Maven for another
# version of ZooKeeper.
NODE     := $(if $(shell command -v npm),,nodejs npm)
JAVA     := $(if $(shell command -v java),,default-jre-headless)
MAVEN    := $(if $(shell command -v mvn),,maven)
COMPILER := $(if $(shell command -v cc),,build-essential)
PACKAGES := $(COMPILER) $(JAVA) $(NODE) zookeeper

help: ## lists the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

demo: install vendor ## a real ZooKeeper, loaded until it gives way, and the page that says why (SERVE=0: ends after the verdict)
	cargo build --release --locked --bin rampart
	@mkdir -p $(TARGET_DIR)/demo
	$(RAMPART) serve --db $(TARGET_DIR)/demo/rampart.db --run scenarios/demo.toml $(if $(filter 0,$(SERVE)),--exit-after-run)

test: install-tests vendor ## everything: format, lints, unit tests, real servers, a real browser
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo test --workspace --locked

check: vendor ## quick: format, lints, unit tests
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo test --workspace --lib --locked

run: vendor ## the server, on http://127.0.0.1:7117
	cargo run --release --locked -- serve

bench: install ## all figures, or one: make bench ONLY=fill
	@for bench in $(or $(ONLY),$(BENCHES)); do cargo bench --locked --bench $$bench || exit 1; done

calibration: ## how right the answers are: known systems, their figures written to docs/CALIBRATION.md
	@for bench in $(CALIBRATION); do RAMPART_CALIBRATION=$(CURDIR)/docs/CALIBRATION.md cargo bench --locked --bench $$bench || exit 1; done

vendor: static/vendor/uPlot.iife.min.js

static/vendor/uPlot.iife.min.js: package.json package-lock.json
	npm ci --no-audit --no-fund --loglevel=error
	npm run --silent vendor
	@touch $@

install:
	@scripts/install-packages $(PACKAGES)

install-tests: install
	@scripts/install-packages chromium chromium-driver $(MAVEN)
