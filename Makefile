# Every command we type. Each installs what it needs.

SHELL := /bin/bash
.DEFAULT_GOAL := help
CARGO ?= cargo
# The profile of the programs that the tests with outside software start.
INTEROP_PROFILE ?= dev
CENTRIFUGO_VERSION := v6.9.1
# Also in experiments/lateness.toml.
K6_VERSION := v1.8.1
ifdef CI
LOCKED := --locked
endif
IS_ROOT := $(filter 0,$(shell id -u))
# No target becomes root unasked: `make scale SUDO=sudo`, and `make tools SUDO=sudo` to install.
SUDO ?=
# Everything, with the features of a release. Lints, documentation, tests and programs have the same features, so that each
# crate is compiled once for all of them.
RELEASE_FEATURES := --features watchfire-cli/desktop,watchfire-cli/otlp,watchfire-cli/profiles
WORKSPACE := --workspace $(RELEASE_FEATURES)
# The programs of all figures: one build, with the features of a release.
BUILD_MEASURED = $(CARGO) build --release $(LOCKED) $(RELEASE_FEATURES) -p watchfire-cli -p watchfire-bench -p chat
# Suites that take minutes: `make test` runs a slice of each.
LONG_SUITES := early walks live desktop tab proxies processes mirror cluster faults observe networks neighbours profiles traces tutorials package engines embed

.PHONY: $(shell sed -n 's/^\([a-z][a-z-]*\):.*/\1/p' $(firstword $(MAKEFILE_LIST)))

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "  make test-NAME      A suite of tests with outside software; tests/interop/suites.mjs lists them"
	@echo "  make slice-NAME     A slice of the suite: what \`make test\` runs of it"
	@echo "  make bench-NAME     Measure, and write a page: $$(sed -n 's/^bench-\([a-z-]*\):.*/\1/p' $(MAKEFILE_LIST) | sort | tr '\n' ' ')"

serve: web ## Build everything and serve on http://localhost:4000
	$(CARGO) build --profile serve --no-default-features $(LOCKED) -p watchfire-cli
	./target/serve/watchfire serve $(ARGS)

web: web/dist/index.html ## Build the web client

WEB_SOURCES := $(shell find web clients/javascript/src clients/javascript/package.json -type d \( -name node_modules -o -name dist \) -prune -o -type f -print 2>/dev/null)

web/dist/index.html: web/node_modules/.package-lock.json $(WEB_SOURCES)
	cd web && npm run build
	@touch $@

client: clients/javascript/dist/index.js # Build the npm package @watchfire/client

clients/javascript/dist/index.js: clients/javascript/node_modules/.package-lock.json clients/javascript/tsconfig.json $(wildcard clients/javascript/src/*.ts clients/javascript/src/*/*.ts)
	cd clients/javascript && npm run build

packages: clients/javascript/node_modules/.package-lock.json web/node_modules/.package-lock.json ## Pack the npm packages in target/npm, for `npm install` before the first release
	cd web && node packages/build.js
	rm -rf target/npm && mkdir -p target/npm
	npm pack --silent --ignore-scripts --pack-destination target/npm $(addprefix ./,clients/javascript web/packages/pages web/packages/element)

# The targets of `make test`. Those that end soonest come first.
TEST_TARGETS := tools slice-tools web client format docs-links commits web-test client-test lint api-docs rust-test \
  interop-build gate test-channels test-browser test-others slices test-outside
# With the programs of the images, no Rust test is left out.
ALL_TARGETS := image-tools $(filter-out slice-tools slices test-browser test-outside,$(TEST_TARGETS)) test-browser-whole $(LONG_SUITES:%=test-%) outside features audit $(if $(IS_ROOT),test-dist)

test: ## Run all tests of CI: everything, and a slice of each suite that takes minutes. Prints how long each part took
	@MAKE="$(MAKE)" tests/targets.sh $(TEST_TARGETS)
	@cd tests/interop && node lib/missing-programs.mjs && node suites.mjs --missing

test-all: ## Run everything in full, also after a failure; takes hours
	@MAKE="$(MAKE)" tests/targets.sh --keep-going $(ALL_TARGETS)
	@cd tests/interop && node lib/missing-programs.mjs && node suites.mjs --missing

quick: ## Check, and test only what differs from main and the crates that depend on it
	CARGO="$(CARGO)" WORKSPACE="$(LOCKED) $(WORKSPACE)" node tests/changed.mjs

check: format docs-links commits lint api-docs ## Formatting, links, subjects of new commits, lints and documentation

format: client node_modules/.package-lock.json tests/interop/node_modules/.package-lock.json
	$(CARGO) fmt --all --check
	npm run check --silent

node_modules/.package-lock.json: package.json package-lock.json
	npm ci --no-audit --no-fund
	@touch $@

%/node_modules/.package-lock.json: %/package.json %/package-lock.json
	cd $* && npm ci --no-audit --no-fund
	@touch $@

commits:
	tests/commits.sh

lint: web
	$(CARGO) clippy $(LOCKED) $(WORKSPACE) --all-targets -- -D warnings
	$(CARGO) clippy $(LOCKED) --no-default-features -p watchfire-cli -- -D warnings

api-docs: web
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc $(LOCKED) $(WORKSPACE) --no-deps --quiet

features: ## Check the library with each of its features alone
	for feature in "" cluster embed hooks jwt logging otlp settings-file testing tls; do \
	  RUSTFLAGS="-D warnings" $(CARGO) check $(LOCKED) --quiet -p watchfire --no-default-features --features "$$feature" || exit 1; done

public-api: ## List the library's public items in crates/server/public-api.txt, and show what changed; installs cargo-public-api when it is missing
	CARGO="$(CARGO)" tests/public-api.sh

external-types: # Check that public items of the library name only types of crates/server/external-types.toml; installs a tool and its nightly toolchain
	CARGO="$(CARGO)" tests/external-types.sh

figures-check: web # Check that no page with figures is too old; a release does
	FIGURES_CHECK=1 $(CARGO) test $(LOCKED) -p watchfire-cli --test all pages

audit: ## Check licences, sources and known vulnerabilities of all dependencies; installs cargo-deny when it is missing
	CARGO="$(CARGO)" tests/audit.sh

rust-test: web ## The Rust tests, fuzz targets with their seeds among them
	CARGO="$(CARGO)" WORKSPACE="$(LOCKED) $(WORKSPACE)" node tests/rust-tests.mjs

web-test: web # The web client's types, tests and weight
	cd web && npm run typecheck && npm test && npm run weigh

client-test: client # The client's pure parts, and the contents of its package
	cd clients/javascript && npm test

# With the profile of the Rust tests, the programs have the features for which the tests compiled everything already.
ifeq ($(INTEROP_PROFILE),dev)
PROGRAMS := $(WORKSPACE) --bins --examples --tests
else
PROGRAMS := --profile $(INTEROP_PROFILE) $(RELEASE_FEATURES) $(addprefix -p ,watchfire-cli chat nested orders watchfire-p2p watchfire-sockets watchfire-load) --bins --examples
endif
RUN_SUITES := cd tests/interop && CARGO="$(CARGO)" INTEROP_PROFILE=$(INTEROP_PROFILE) node suites.mjs

interop-build: web client tools tests/interop/node_modules/.package-lock.json
	$(CARGO) build $(LOCKED) $(PROGRAMS)

interop: test-channels test-browser test-others # Real clients and real browsers against our server

test-others: interop-build
	$(RUN_SUITES) kubo command-line channels-3 tls client

# The Debian packages that a suite needs beside those of `make tools`.
PACKAGES_walks := dbus-daemon:dbus-daemon python:dbus:python3-dbus python:gi:python3-gi
PACKAGES_desktop := Xvfb:xvfb xdotool:xdotool xev:x11-utils xwininfo:x11-utils xrandr:x11-xserver-utils python:gi:python3-gi /usr/share/doc/gir1.2-gtk-3.0:gir1.2-gtk-3.0
PACKAGES_observe := prometheus:prometheus promtool:prometheus tmux:tmux docker-registry:docker-registry faketime:faketime
PACKAGES_tutorials := docker-registry:docker-registry uvicorn:uvicorn php:php-cli ruby:ruby go:golang-go python:fastapi:python3-fastapi python:jwt:python3-jwt

test-%: interop-build
	@tests/install.sh $(PACKAGES_$*)
	$(RUN_SUITES) $*

# The names before there was one for each suite.
interop-%: test-% ;

slices: slice-tools interop-build ## A slice of each suite that takes minutes, two at a time
	$(RUN_SUITES) --slice

slice-tools: tools
	@tests/install.sh firefox-esr:firefox-esr tmux:tmux promtool:prometheus docker-registry:docker-registry skopeo:skopeo go:golang-go uvicorn:uvicorn python:fastapi:python3-fastapi python:jwt:python3-jwt

slice-%: slice-tools interop-build
	$(RUN_SUITES) --slice $*

gate: gate-tools interop-build ## Count instructions, allocations, bytes and messages, and compare with experiments/gate.json; ONLY=exchange,join counts less
	$(CARGO) build $(LOCKED) --profile gate -p watchfire-gate
	@node --test experiments/gate/*.test.mjs >/dev/null || node --test experiments/gate/*.test.mjs
	@INTEROP_PROFILE=$(INTEROP_PROFILE) node experiments/gate/gate.mjs $(if $(ONLY),--only $(ONLY)) $(GATE_ARGS)

gate-accept: ## Make what `make gate` counts now the values to compare with; commit them with the reason
	@$(MAKE) --no-print-directory gate GATE_ARGS=--accept

gate-proof: gate-tools # Plant slow-downs and harmless changes in a clone, and show that the gate finds the first and not the second; takes half an hour
	CARGO="$(CARGO)" node experiments/gate/proof.mjs

gate-tools:
	@tests/install.sh valgrind:valgrind strace:strace

# The commit of a week ago and this one. Other sides: make gate-weekly SIDES=v0.1.0..HEAD
SIDES ?= $(shell git rev-list -1 --before='7 days ago' HEAD)..HEAD
WEEKLY := spread-8 lobby

gate-weekly: web tools ## Run experiments with processes of SIDES (a week ago..HEAD) in turns, and judge times, CPU time and memory; takes two hours
	@tests/install.sh curl:curl
	$(CARGO) build $(LOCKED) --release -p watchfire-cli
	for name in $(WEEKLY); do \
	  ./target/release/watchfire lab compare $(SIDES) experiments/$$name.toml --driver processes --warm-up 1 --repeat 10 || exit; done

dist: web clients/javascript/node_modules/.package-lock.json ## Pack a release in dist/: archive, Debian package, container image; DIST_BINARY packs a built program
	CARGO="$(CARGO)" packaging/dist.sh

test-dist: dist dist-tools tests/interop/node_modules/.package-lock.json tests/dist/node_modules/.package-lock.json ## Install what `make dist` packed, as an operator does; needs root, takes minutes
	cd tests/dist && npm test

dist-tools: tools # Install what the tests of the packages use, when it is missing
	@tests/install.sh mmdebstrap:mmdebstrap nft:nftables ctr:containerd runc:runc umoci:umoci strace:strace zsh:zsh fish:fish man:man-db curl:curl ip:iproute2 file:file readelf:binutils

soak: tools web/node_modules/.package-lock.json tests/interop/node_modules/.package-lock.json ## SOAK_TABS (30) tabs hold a page for SOAK_MINUTES (120) through upgrades, and two gigabytes between browsers; writes docs/seeds/soak.md
	CARGO="$(CARGO)" LOCKED="$(LOCKED)" tests/interop/soak/programs.sh
	cd tests/interop && LARGE_BYTES=$${LARGE_BYTES:-2000000000} WATCHFIRE_BINARY=$(CURDIR)/target/soak/watchfire node --test browser/large-files.test.mjs
	cd tests/interop && SOAK_PROGRAM=$(CURDIR)/target/soak/watchfire SOAK_NEXT_PROGRAM=$(CURDIR)/target/soak/watchfire-next \
	  CARGO="$(CARGO)" node --test soak/soak.test.mjs

test-mirror: interop-build mirror-tools # Pull images through the mirror with containerd 1 and 2, podman, buildah, skopeo, crane and regctl
	@tests/install.sh docker-registry:docker-registry skopeo:skopeo buildah:buildah podman:podman containerd:containerd runc:runc
	$(RUN_SUITES) mirror

test-cluster: interop-build # Several machines on real NATS servers, behind HAProxy; builds nats-server once, with Go
	$(RUN_SUITES) cluster
	NATS_SERVER="$$(cd tests/interop && node --input-type=module -e "import { natsServer } from './lib/nats.mjs'; console.log(natsServer())")" \
	  $(CARGO) test $(LOCKED) -p watchfire-cluster --test nats -- --ignored --test-threads=1

test-profiles: interop-build # CPU profiles of a server and of commands under load, read by `go tool pprof`
	@tests/install.sh go:golang-go python3:python3
	$(CARGO) test $(LOCKED) -p watchfire-operator --test without_profiles
	$(RUN_SUITES) profiles

test-traces: interop-build # Spans and flame graphs of an experiment; traces of a browser, servers and mirrors at a real OpenTelemetry collector, which Go builds once
	@tests/install.sh docker-registry:docker-registry go:golang-go
	$(CARGO) test $(LOCKED) -p watchfire-cli --features otlp,profiles --test all -- lab::the_spans lab::each_node_has_a_flame
	$(RUN_SUITES) traces

test-embed: interop-build tests/interop/embed/node_modules/.package-lock.json # A site of another origin that shares a dropped file and shows pages, with the built npm packages
	$(RUN_SUITES) embed

test-engines: interop-build engine-tools # The tests of pages in Chromium, Firefox and WebKitGTK, and pages between each pair of them; writes docs/reference/browsers.md
	$(RUN_SUITES) engines

tools: ## Install the browser, the load tool and the proxies that the tests drive, when they are missing
	@tests/install.sh chromium:chromium tsung:tsung nginx:nginx-light caddy:caddy haproxy:haproxy /usr/lib/nginx/modules/ngx_stream_module.so:libnginx-mod-stream ssh:openssh-client /usr/sbin/sshd:openssh-server

engine-tools: tools # Install Firefox, WebKitGTK's driver and a display server, when they are missing
	@tests/install.sh firefox-esr:firefox-esr WebKitWebDriver:webkit2gtk-driver Xvfb:xvfb

mirror-tools: # Build containerd 2, crane, regctl and a registry once, with Go, for `make test-mirror`
	@cd tests/interop && node --input-type=module -e "import { buildMirrorTools, whyNoMirrorTools } from './lib/mirror-tools.mjs'; \
	  if (whyNoMirrorTools) console.log(whyNoMirrorTools); else await buildMirrorTools()"

swarm-tools: # Install what the swarm is compared with, when it is missing; builds kubo once, with Go
	@tests/install.sh nginx:nginx-light curl:curl
	@cd tests/interop && node --input-type=module -e "import { linkKubo } from './lib/kubo.mjs'; await linkKubo('$(CURDIR)/target/kubo')"

WEBTORRENT := experiments/peers/webtorrent/node_modules/.package-lock.json

# Without the scripts of packages, which would build WebRTC for Node.
$(WEBTORRENT): experiments/peers/webtorrent/package.json experiments/peers/webtorrent/package-lock.json
	cd experiments/peers/webtorrent && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@

GO_BITSWAP := target/go-bitswap/go-bitswap

$(GO_BITSWAP): $(wildcard experiments/peers/go-bitswap/*)
	cd experiments/peers/go-bitswap && go build -o $(CURDIR)/$@ .
	@touch $@

peer-tools: $(WEBTORRENT) $(GO_BITSWAP) # Build the peers of experiments that are not ours, when they are missing: Bitswap of 2019, with Go, and WebTorrent

lateness-tools: # Install the load generators that ours is compared with, when they are missing; builds k6 once, with Go
	@tests/install.sh tsung:tsung
	@[ -x target/k6/$(K6_VERSION)/k6 ] || GOBIN=$(CURDIR)/target/k6/$(K6_VERSION) go install go.k6.io/k6@$(K6_VERSION)

image-tools: # Install the registry, the container engine and the proxy of bench-images, when they are missing
	@tests/install.sh docker-registry:docker-registry skopeo:skopeo containerd:containerd nginx:nginx-light unshare:util-linux mount:mount

kraken-tools: # Install what Kraken needs, when it is missing; builds Kraken once, with Go
	@tests/install.sh redis-server:redis-server nginx:nginx-light curl:curl unshare:util-linux go:golang-go
	@[ -x target/kraken/tracker ] || (cd experiments/peers/kraken && mkdir -p $(CURDIR)/target/kraken && \
	  go build -mod=readonly -o $(CURDIR)/target/kraken/ $$(go list -mod=readonly tool))

lazy-tools: image-tools # Build containerd 2 and the stargz snapshotter once, with Go, and link to them from target/lazy
	@tests/install.sh runc:runc curl:curl unshare:util-linux go:golang-go
	@cd tests/interop && node --input-type=module -e "import { linkLazyTools } from './lib/mirror-tools.mjs'; await linkLazyTools('$(CURDIR)/target/lazy')"

cluster-tools: tests/interop/node_modules/.package-lock.json experiments/peers/node_modules/.package-lock.json # Install what a cluster is compared with, when it is missing; builds nats-server and Centrifugo once, with Go
	@tests/install.sh redis-server:redis-server curl:curl ss:iproute2 unshare:util-linux
	@cd tests/interop && node --input-type=module -e "import { linkNats } from './lib/nats.mjs'; await linkNats('$(CURDIR)/target/nats')"
	@[ -x target/centrifugo/$(CENTRIFUGO_VERSION)/centrifugo ] || \
	  GOBIN=$(CURDIR)/target/centrifugo/$(CENTRIFUGO_VERSION) go install github.com/centrifugal/centrifugo/v6@$(CENTRIFUGO_VERSION)

OUTSIDE_BUILD := $(CARGO) build $(LOCKED) $(PROGRAMS)
# Wycheproof's vectors are unit tests. They are compiled before the time of the suites begins.
OUTSIDE_TESTS := $(if $(if $(SUITES),$(filter wycheproof,$(SUITES)),all),watchfire-auth watchfire-content)
OUTSIDE_RUN := cd tests/outside && INTEROP_PROFILE=$(INTEROP_PROFILE) node run.mjs

outside: OUTSIDE_TOOLS := chromium:chromium
outside: web outside-tools tests/interop/node_modules/.package-lock.json ## Let suites of others judge us; writes docs/reference/outside.md. SUITES chooses some of them
	$(OUTSIDE_BUILD)
	$(foreach crate,$(OUTSIDE_TESTS),$(CARGO) test $(LOCKED) --no-run --package $(crate) --lib &&) true
	$(OUTSIDE_RUN) $(SUITES)

test-outside: web outside-tools # A short part of each suite of others, in a minute; writes nothing
	cd tests/outside && npm test --silent
	$(OUTSIDE_BUILD)
	$(OUTSIDE_RUN) --slice $(SUITES)

outside-tools: tests/outside/node_modules/.package-lock.json # Install what the suites of others need, when it is missing
	@tests/install.sh slowhttptest:slowhttptest testssl:testssl.sh sslscan:sslscan $(OUTSIDE_TOOLS) python:ensurepip:python3-venv

docs: docs-links ## Build the book in target/book; installs mdbook when it is missing
	@command -v mdbook >/dev/null || $(CARGO) install mdbook --version 0.5.4 --locked --no-default-features --features search
	mdbook build

pictures: web slice-tools tests/interop/node_modules/.package-lock.json ## Make the pictures of the documents from real browsers
	@tests/install.sh img2webp:webp cwebp:webp
	$(CARGO) build --release $(LOCKED) -p watchfire-cli -p orders
	node docs/images/record.mjs
	node docs/images/views.mjs
	node docs/images/tutorials.mjs

walks: interop-build # Record walks through a first visit with a screen reader, a keyboard, zoom and reduced motion; writes docs/browser/walks.md
	WALKS_WRITE=1 $(MAKE) test-walks

film: interop-build # Record a video that plays before a third of it has arrived; writes docs/browser/film.webp and film.md
	@tests/install.sh img2webp:webp cwebp:webp
	INTEROP_PROFILE=$(INTEROP_PROFILE) node docs/images/film.mjs

docs-links: tests/docs/node_modules/.package-lock.json ## Check every link between documents
	cd tests/docs && npm test --silent

fuzz: ## Fuzz every decoder, or those of TARGETS, for FUZZ_SECONDS (60) each, guided by coverage; and the model
	CARGO="$(CARGO)" fuzz/run.sh $(TARGETS)
	$(if $(TARGETS),,$(MAKE) model)

test-restart: web # Restart a server with 18,000 sockets and 1,000 parked polls, and show the figures
	RESTART_SOCKETS=$${RESTART_SOCKETS:-18000} RESTART_POLLS=$${RESTART_POLLS:-1000} RESTART_DRAIN_SECONDS=$${RESTART_DRAIN_SECONDS:-10} \
	  $(CARGO) test $(LOCKED) --release -p watchfire-cli --test restart under_load -- --nocapture

model: ## Compare the server with a model under random clients, from MODEL_SEEDS seeds (10000)
	MODEL_SEEDS=$${MODEL_SEEDS:-10000} $(CARGO) test $(LOCKED) -p watchfire --lib model

sim: ## Simulate swarms with faults from SIM_SEEDS seeds (1000)
	SIM_SEEDS=$${SIM_SEEDS:-1000} $(CARGO) test --release $(LOCKED) -p watchfire-sim --test all faults -- --nocapture

sim-operators: # Simulate OPERATORS (1,000) servers that name each other as neighbours, from OPERATORS_SEED (7), and print which pages are found
	OPERATORS=$(or $(OPERATORS),1000) $(CARGO) test --release $(LOCKED) -p watchfire-pages --lib operators -- --nocapture

sim-pictures: # Simulate swarms and fleets; writes docs/simulation/. EXPERIMENTS chooses some of swarms, netflix-32, equal-1000, fleets and large-fleets
	$(BUILD_MEASURED)
	for name in $(or $(EXPERIMENTS),swarms netflix-32 equal-1000 fleets large-fleets); do \
	  ./target/release/watchfire lab run experiments/simulated/$$name.toml --page docs/simulation/$$name.md || exit; done

# Measures an experiment, and writes its page: $(call measure,EXPERIMENT,PAGE).
define measure
$(BUILD_MEASURED)
$(SUDO) ./target/release/watchfire lab run experiments/$(1).toml --driver processes $(or $(ARGS),--page docs/$(2).md)
endef

figures: ## Measure each experiment whose page is not of this commit, for hours; ended at any time, it goes on where it was
	MAKE="$(MAKE)" experiments/figures.sh

bench-calibration: web # Run experiments in the simulator and on processes; writes docs/simulation/calibration.md
	$(BUILD_MEASURED)
	$(SUDO) ./target/release/watchfire lab calibrate experiments/calibration/*.toml --output docs/simulation/calibration.md $(ARGS)

bench: web experiments/peers/node_modules/.package-lock.json ## Measure against the targets, side by side; writes docs/bench/
	$(call measure,targets,bench/targets)

scale: web ## Very many sockets on this machine; writes docs/scale/. EXPERIMENTS chooses some of million, polls, rooms, one-room, storm, small-machine, observed and streams
	$(BUILD_MEASURED)
	for name in $(or $(EXPERIMENTS),million polls rooms one-room storm small-machine observed streams); do \
	  $(SUDO) ./target/release/watchfire lab run experiments/scale-$$name.toml --driver processes \
	    $(or $(ARGS),--page docs/scale/$$name.md) || exit; done

bench-two-million: web # Two million sockets in one room, beside a bare epoll server; writes docs/seeds/two-million.md
	$(call measure,seeds/two-million,seeds/two-million)

bench-road: web # The cost of a socket from 1,000 to 1,300,000; writes docs/seeds/road.md
	$(call measure,seeds/road,seeds/road)

bench-polls: web # 250,001 long polls beside short JSON requests, and a bare epoll server; writes docs/seeds/polls.md
	$(call measure,seeds/polls,seeds/polls)

bench-sprites: web # 100,004 windows that throw a sprite each 5 seconds; writes docs/seeds/sprites.md
	$(call measure,seeds/sprites,seeds/sprites)

bench-front-page: web # A day on the front page, with content; writes docs/scale/front-page-content.md
	$(call measure,seeds/front-page,scale/front-page-content)

bench-cluster: web cluster-tools # Three machines, beside Centrifugo and Socket.IO; writes docs/scale/cluster.md
	$(call measure,cluster,scale/cluster)

bench-histories: web cluster-tools # Measure the cost of a history for a message, on one machine and on NATS; writes docs/scale/histories.md, in 15 minutes
	$(call measure,histories,scale/histories)

bench-neighbours: web tests/interop/node_modules/.package-lock.json # A page of one server, opened at its neighbour; writes docs/scale/neighbours.md
	$(call measure,neighbours,scale/neighbours)

bench-recovery: web cluster-tools # 10,000 users that are cut off, beside Centrifugo; writes docs/scale/recovery.md
	$(call measure,recovery,scale/recovery)

bench-lateness: web lateness-tools # How late users send, beside Tsung and k6; writes docs/bench/lateness.md, in 17 minutes
	$(BUILD_MEASURED)
	$(CARGO) build --release $(LOCKED) -p watchfire-load --example arrivals
	./target/release/watchfire lab run experiments/lateness.toml --driver processes $(or $(ARGS),--page docs/bench/lateness.md)

bench-swarm: web swarm-tools peer-tools # A file from one to many, beside kubo, WebTorrent and HTTP; writes docs/swarm/. EXPERIMENTS chooses some of pair, crowd, uplinks and webtorrent
	$(BUILD_MEASURED)
	for name in $(or $(EXPERIMENTS),pair crowd uplinks webtorrent); do \
	  ./target/release/watchfire lab run experiments/swarm-$$name.toml --driver processes \
	    $(or $(ARGS),--page docs/swarm/$$name.md) || exit; done

bench-spread: web swarm-tools peer-tools image-tools # 300 MiB to 32: old Bitswap, kubo, ours, a registry and HTTP, simulated and on processes; writes docs/seeds/
	$(BUILD_MEASURED)
	./target/release/watchfire lab run experiments/seeds/spread-32-simulated.toml \
	  $(or $(ARGS),--page docs/seeds/spread-32-simulated.md)
	$(SUDO) ./target/release/watchfire lab run experiments/seeds/spread-32.toml --driver processes \
	  $(or $(ARGS),--page docs/seeds/spread-32.md)

# The exchange of the second commit takes memory from the system less often than that of the first.
PROOF_BEFORE := 141718fc
PROOF_AFTER := dca1b51c
COMPARE := ./target/release/watchfire lab compare
PROOF_OPTIONS := experiments/spread-8.toml --driver processes --trial get --warm-up 1 $(or $(ARGS),--repeat 10)

compare-proof: web # `lab compare` finds a change of the exchange between two commits of the history, and none between a program and itself
	$(BUILD_MEASURED)
	$(COMPARE) $(PROOF_AFTER)..$(PROOF_BEFORE) $(PROOF_OPTIONS); [ $$? = 4 ]
	# One of 40 is expected to be worse, so three of 20 are a fault of the verdict (99 %).
	worse=0; for seed in $$(seq 1000 1000 20000); do \
	  $(COMPARE) ./target/release/watchfire..target/release/watchfire $(PROOF_OPTIONS) --seed $$seed; \
	  case $$? in 0) ;; 4) worse=$$((worse + 1)) ;; *) exit 1 ;; esac; done; \
	echo "$$worse of 20 comparisons of a program with itself are worse"; [ $$worse -lt 3 ]

bench-images: web image-tools kraken-tools lazy-tools # An image to many hosts, beside a registry, shared caches and Kraken; writes docs/fleet/. EXPERIMENTS chooses some of them
	$(BUILD_MEASURED)
	failed=; \
	for name in $(or $(EXPERIMENTS),neighbour kraken lazy proxy-file unshaped equal-links slow-upstream small-layers sizes); do \
	  $(SUDO) ./target/release/watchfire lab run experiments/images-$$name.toml --driver processes \
	    $(or $(ARGS),--page docs/fleet/$$name.md) || failed="$$failed $$name"; done; \
	[ -z "$$failed" ] || { echo "failed:$$failed" >&2; exit 1; }

bench-browser: web tools tests/interop/node_modules/.package-lock.json $(WEBTORRENT) # A page from one browser to ten, beside WebTorrent and a raw data channel; writes docs/browser/crowd.md
	$(call measure,browser,browser/crowd)

bench-networks: web tests/interop/node_modules/.package-lock.json # A page between two browsers on any two networks; writes docs/browser/networks.md
	$(call measure,networks,browser/networks)

bench-tab: web tools tests/interop/node_modules/.package-lock.json # Very many and very large files in one tab; writes docs/browser/tab.md
	$(BUILD_MEASURED)
	cd tests/interop && INTEROP_PROFILE=release node tab/bench.mjs $(or $(ARGS),--page ../../docs/browser/tab.md)

bench-churn: web tests/interop/node_modules/.package-lock.json # A page and up to 200 simulated tabs that come and go; writes docs/browser/churn.md, in 12 to 20 minutes
	$(call measure,churn,browser/churn)

bench-paths: web tools $(WEBTORRENT) # A page over the lines that people have, beside WebTorrent and a raw channel; writes docs/browser/paths.md
	$(call measure,paths,browser/paths)

bench-dial: web tests/interop/node_modules/.package-lock.json # A file from a terminal to a browser, beside nginx with curl and a raw data channel; writes docs/browser/dial.md, in 4 minutes
	$(call measure,dial,browser/dial)

clean: ## Remove what was built
	$(CARGO) clean
	rm -rf dist node_modules web/dist web/packages/*/dist web/node_modules clients/javascript/dist clients/javascript/node_modules tests/interop/node_modules tests/interop/embed/node_modules tests/docs/node_modules tests/dist/node_modules tests/outside/node_modules tests/outside/bitswap/node_modules experiments/peers/node_modules experiments/peers/webtorrent/node_modules
