# `make tools`, which the others begin with, installs the Debian packages and the Rust toolchain that are missing; `make
# install` puts the program below PREFIX, and `make uninstall` removes it. Nothing else on the machine is changed.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.PHONY: bench test check root-test docs bench-sim bench-quic bench-cpu bench-emu tools build install uninstall dist test-long lab-kernel lab-kernels

# Where rustup puts its programs when they are not on the PATH yet.
export PATH := $(PATH):$(HOME)/.cargo/bin

HEADWAY := target/release/headway
BENCH_FLAGS ?=

# The product's main job: our BBRv3, with and without the brake, and cubic against the kernel's own bbr, in the lab.
bench: build lab-kernel
	$(HEADWAY) bench $(BENCH_FLAGS)

# All tests; those that need root run where this is root and say so where not.
test: tools lab-kernels
	cargo test --locked --workspace

# What takes too long for `make test`: the packages in root file systems of Debian, the tests whose names begin with
# `long_`, mistakes that are put into the controllers to see whether the tests find them, and input that nobody would write.
test-long: tools lab-kernels dist
	@scripts/install kernel-build
	scripts/check-package
	cargo test --locked --workspace -- --ignored long_
	scripts/mutations
	scripts/fuzz

# What a change must pass before it is committed.
check: tools
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --workspace
	scripts/mutations --check

# The manual as web pages, from docs/ and from the program: target/manual/index.html.
docs: build
	scripts/manual

root-test: tools
	cargo test --locked -p headway-kernel -p headway-cli root_

bench-sim: tools
	cargo bench --locked -p headway-cc --bench sim
	benches/ns3.sh

bench-quic: tools
	cargo bench --locked -p headway-cc --bench quic
	benches/quic_cpu.sh

bench-cpu: tools lab-kernel
	benches/cpu_lab.sh

bench-emu: tools
	benches/emu.sh

tools:
	@scripts/install

# Where `make install` puts the program. DESTDIR is the root directory of a package that is being made.
PREFIX ?= /usr/local
DESTDIR ?=

build: tools
	cargo build --release --locked

# Root builds as the owner of this folder, so that nothing in target/ is root's afterwards.
install:
	@owner=$$(stat -c %U .); \
	if [ "$$(id -u)" = 0 ] && [ "$$owner" != root ] && [ "$$owner" != UNKNOWN ]; then \
		runuser -u "$$owner" -- env HOME="$$(getent passwd "$$owner" | cut -d: -f6)" $(MAKE) build; \
	else \
		$(MAKE) build; \
	fi
	@scripts/place install "$(PREFIX)" "$(DESTDIR)"

uninstall:
	@scripts/place uninstall "$(PREFIX)" "$(DESTDIR)"

# The static binary, a tarball and a Debian package with checksums, in target/dist.
dist: tools
	@scripts/dist

# One kernel for `make bench`; the tests want the oldest supported one too, and the newest where it is to be had.
lab-kernel:
	@scripts/kernel fetch default
lab-kernels: lab-kernel
	@scripts/kernel fetch 6.1
	@scripts/kernel fetch 6.12
	-@scripts/kernel fetch 7.2
