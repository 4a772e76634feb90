# The two commands of the README are `run` and `test`; the others are for the people who work on it.
# Each target sets up what it needs.

CARGO = . scripts/toolchain.sh && cargo
LOOM = RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom

.PHONY: help
help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

.PHONY: run
run: ## Run a pipeline through standpipe run, next to the plain shell (PIPELINE='a | b')
	@PIPELINE="$$PIPELINE" scripts/run.sh

.PHONY: test
test: lint deny unit explore ## Everything that CI checks

.PHONY: lint
lint: ## Formatting, clippy, documentation
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --all-features --locked -- -D warnings
	$(CARGO) clippy --package standpipe --no-default-features --locked -- -D warnings
	. scripts/toolchain.sh && RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --all-features --locked --quiet

.PHONY: deny
deny: ## Licences, bans and sources of the dependencies
	. scripts/toolchain.sh && (cargo deny --version >/dev/null 2>&1 || cargo install --locked --quiet cargo-deny)
	$(CARGO) deny check licenses bans sources

.PHONY: audit
audit: ## Advisories against the dependencies (fetches the RustSec database)
	$(CARGO) deny check advisories

.PHONY: unit
unit: ## Unit, conformance, torture and command tests
	TOOLS="cc c++ make pkg-config"; $(CARGO) test --workspace --all-features --profile quick --locked

.PHONY: explore
explore: ## The lane under loom, bounded: seconds
	. scripts/toolchain.sh && $(LOOM) LOOM_MAX_PREEMPTIONS=2 cargo test --release --locked -p standpipe-shm --lib

.PHONY: loom
loom: ## The lane under loom, with more preemptions: minutes
	. scripts/toolchain.sh && $(LOOM) LOOM_MAX_PREEMPTIONS=3 cargo test --release --locked -p standpipe-shm --lib 

.PHONY: model
model: ## The lane protocol, explored with unaware processes and deaths: a minute or two
	$(CARGO) test --release --locked -p standpipe --test protocol -- --ignored --nocapture

.PHONY: torture
torture: ## 100,000 kills at random instants, over pipes, FIFOs, strangers; and hostile peers
	$(CARGO) run --release --locked -p standpipe-conformance --bin torture -- --kills 100000
	$(CARGO) run --release --locked -p standpipe-conformance --bin torture -- --hostile --kills 1000

.PHONY: fuzz
fuzz: ## What strangers send and hostile peers write, under libFuzzer: minutes (FUZZ_SECONDS)
	. scripts/toolchain.sh && (cargo fuzz --version >/dev/null 2>&1 || cargo install --locked --quiet cargo-fuzz)
	. scripts/toolchain.sh && cd fuzz && for target in messages header; do \
	    cargo +nightly fuzz run $$target -- -max_total_time=$${FUZZ_SECONDS:-300} -timeout=10 -max_len=2400 || exit 1; done

.PHONY: bench
bench: ## All suites in full, and the report: target/bench/report.html
	$(CARGO) build --release --locked -p standpipe-cli
	scripts/bench.sh

.PHONY: build
build: ## The standpipe command: target/release/standpipe
	$(CARGO) build --release --locked -p standpipe-cli

.PHONY: install
install: ## The C library, its headers and pkg-config file, under PREFIX=/usr/local (in DESTDIR)
	scripts/capi.sh install "$(or $(PREFIX),/usr/local)" "$(DESTDIR)"

.PHONY: clean
clean: ## Remove what was built, and the corpus of `make run`
	rm -rf target .cache
