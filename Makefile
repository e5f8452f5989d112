# `make bench` and `make test` install what is missing first; nothing else on the machine is changed.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.PHONY: bench test check root-test docs bench-sim bench-quic bench-cpu bench-emu install lab-kernel lab-kernels

# Where rustup puts its programs when they are not on the PATH yet.
export PATH := $(PATH):$(HOME)/.cargo/bin

HEADWAY := target/release/headway
BENCH_FLAGS ?=

# The product's main job: our BBRv3, with and without the brake, and cubic against the kernel's own bbr, in the lab.
bench: install lab-kernel
	cargo build --release --locked
	$(HEADWAY) bench $(BENCH_FLAGS)

# All tests; those that need root run where this is root and say so where not.
test: install lab-kernels
	cargo test --locked --workspace

# What a change must pass before it is committed.
check: install
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --workspace

# The manual as web pages, from docs/ and from the program: target/manual/index.html.
docs: install
	cargo build --release --locked
	scripts/manual

root-test: install
	cargo test --locked -p headway-kernel -p headway-cli root_

bench-sim: install
	cargo bench --locked -p headway-cc --bench sim
	benches/ns3.sh

bench-quic: install
	cargo bench --locked -p headway-cc --bench quic
	benches/quic_cpu.sh

bench-cpu: install lab-kernel
	benches/cpu_lab.sh

bench-emu: install
	benches/emu.sh

install:
	@scripts/install

# One kernel for `make bench`; the tests want the oldest supported one too, and the newest where it is to be had.
lab-kernel:
	@scripts/fetch-kernel default
lab-kernels: lab-kernel
	@scripts/fetch-kernel 6.1
	@scripts/fetch-kernel 6.12
	-@scripts/fetch-kernel 7.2
