.DEFAULT_GOAL := help
SHELL       := /bin/bash
.SHELLFLAGS := -o pipefail -ec
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# The minor versions of Kubernetes: api/minors/window.txt has them, and nothing else here does.
comma   := ,
space   := $() $()
KNOWN   := $(shell grep -v '^\#' api/minors/window.txt)
NEWEST  := $(lastword $(KNOWN))
# The last three, newest first: clusters are made of them. The others are there to upgrade from.
MINORS  := $(shell grep -v '^\#' api/minors/window.txt | tail -3 | tac)
OLDER   := $(filter-out $(NEWEST),$(MINORS))
K8S     ?= $(NEWEST)
# Vendors release weeks after a minor: the lab builds their managers for this one, and their tests run on it.
VENDORS := 1.36
RUN     ?= .
# The folder of a release, and where its images go.
DIST     ?= dist
REGISTRY ?= ghcr.io/ccmadm
# What differs from its neighbours in length more than in kind: left to make long, unless RUN names it.
LONG    := ^TestSecrets|^TestCrash_AtRandom|^TestRealCCM_VSphere|^TestFaults_(AWS|Cloud|DaemonSet|Inventory|Objects|Sample|StaticPod|VSphere)
LONG    := $(LONG)|^TestModes/(^three|01)|^TestMachineIdentity|^TestImageMissing|^TestRehearse|^TestCatalogue_Machine|^TestMigrationByBGP|^TestControlPlaneVIP
# What unit tests, or another test on machines, show as well, and what takes three control planes.
LONG    := $(LONG)|^TestControlPlanes|^TestInventory|^TestDaemonSet|^TestConfigurer|^TestLeastPrivilege|^TestDoctorHost|^TestExternalCA
LONG    := $(LONG)|^TestLint_Vendors|^TestInitAgain|^TestRealCCM_AWS|^TestLoadBalancerBehaviour|^TestDoctorProbe|^TestDoctorPowerCut|^TestLoadBalancerSuite|^TestEgress_Flannel
# Tests of vendors' managers, which need a release for the machines' Kubernetes.
VENDORS_TESTS := ^TestRealCCM|^TestUpgrade_RealCCM|^TestRehearse|^TestSecrets|^TestFaults_(AWS|Cloud|Sample|VSphere)
# Measurements have limits that a busy machine misses, and say nothing about right and wrong: see measure. The long ways
# into external cloud mode and out of it are left to adopt, and those to a new minor version to upgrades.
SKIP    ?= ^TestMeasure|^TestChaos|^TestAdopt_|^TestUpstreamAll|^TestUpstreamMetalLB|^TestReleased|^TestUpgrade$(if $(filter .,$(RUN)),|$(LONG))
# Tests on machines that run side by side: they wait for most of their time.
LANES   ?= 5
# Labs belong to the machine: two runs at once need two names.
LABS    ?= e2e
# Further flags of the tests on machines: make e2e RUN=Crash_AtRandom ARGS='-kills 30'
ARGS    ?=
LINT    := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.12.2
# The linter knows packages by their content, and their files by where they were: a cache that checkouts share speaks of
# files of another one, and finds its exceptions no more where that is gone. One for each place of a checkout, which
# a new clone in that place finds again.
export GOLANGCI_LINT_CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/ccmadm-lint$(CURDIR)
# One way to compile for programs, lab, tests and lint: what they share is compiled once. Only -race needs another. What a debugger reads
# is stripped from every program that is linked here, and to make it takes a fifth of a compiler's time.
COMPILE := -dwarf=false
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -gcflags=all=$(COMPILE) $(filter-out -trimpath -gcflags=all=$(COMPILE),$(shell go env GOFLAGS))
# client-go and the controllers name these versions in their logs and to the API server.
LIBS    := $(shell awk '$$1 == "k8s.io/kubernetes" {print $$2}' go.mod)
LDFLAGS := -s -w -buildid= -X main.version=$(VERSION) -X k8s.io/component-base/version.gitVersion=$(LIBS) -X k8s.io/client-go/pkg/version.gitVersion=$(LIBS)
# gRPC's pages of traces print with templates, which keep every exported method in a program: 23 MB of each image.
GOBUILD := go build -tags grpcnotrace -ldflags '$(LDFLAGS)'
# ccmadm is copied to every machine, and may have 40,000,000 bytes (release/binary.go). Only what Go spends its time in is inlined in
# it: the runtime, locks and cryptography. With everything inlined it has a tenth more, and reads 20,000 objects as fast.
# OpenTelemetry's constants are calls otherwise, 135 kB of them, which the linker cannot leave out.
INLINED  := runtime internal crypto sync go.opentelemetry.io/otel
# Lists of large structs are sorted by slices.SortStableFunc, whose code for each of them is 10 to 20 kB less than SortFunc's.
# HTTP/2 is in it once, that of golang.org/x/net, which client-go uses: net/http's own copy has half a megabyte.
CLIBUILD := go build -tags grpcnotrace,nethttpomithttp2 -gcflags='all=-l $(COMPILE)' $(INLINED:%=-gcflags=%/...=$(COMPILE)) -ldflags '$(LDFLAGS) -funcalign=1'
CCM     := ghcr.io/ccmadm/cloud-controller-manager:$(VERSION)
AGENT   := ghcr.io/ccmadm/node-agent:$(VERSION)
STEPS   := ghcr.io/ccmadm/ccmadm:$(VERSION)
# The lab needs root: namespaces, mounts, cgroups. The PATH goes along, because it builds Kubernetes with go.
ROOT    := $(shell [ "$$(id -u)" = 0 ] || echo 'sudo env "PATH=$$PATH" "HOME=$$HOME" "CGO_ENABLED=0" "GOFLAGS=$$GOFLAGS"')
LAB     := $(ROOT) bin/lab
E2E     := $(ROOT) go test ./test/e2e -count=1 -timeout 90m
SUMMARY := go run ./test/summary

.PHONY: minor next help numbers build bin/lab lab images demo demo-down test check short ordinary unit unit-time unit-race unit-kit unit-half unit-rest race e2e long faults chaos measure adopt upgrades upstream upstream-metallb bench bench-scale tidy committed times generated lint generate verify on-older $(MINORS:%=on-%)

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build bin/ccmadm, bin/cloud-controller-manager and bin/node-agent, static and reproducible
	$(CLIBUILD) -o bin/ccmadm ./cmd/ccmadm
	$(GOBUILD) -o bin/cloud-controller-manager ./cmd/cloud-controller-manager
	$(GOBUILD) -o bin/node-agent ./cmd/node-agent

bin/lab:
	go build -o bin/lab ./test/lab

lab: bin/lab ## Build bin/lab, and what its machines are made of; installs Debian packages that are missing
	$(LAB) build --install --kubernetes $(K8S)

images: build bin/lab ## Build container images as archives under bin/images, without Docker and without a registry
	mkdir -p bin/images
	bin/lab image --name $(CCM) --binary bin/cloud-controller-manager --user 65532 --output bin/images/cloud-controller-manager.tar
	bin/lab image --name $(AGENT) --binary bin/node-agent --user 0 --output bin/images/node-agent.tar
	bin/lab image --name $(STEPS) --binary bin/ccmadm --user 0 --output bin/images/ccmadm.tar

# release/artefacts.go lists what a release has. Known vulnerabilities are looked for at https://vuln.go.dev, or in a copy of that database
# with VULNDB=file:///FOLDER; NO_VULN_CHECK=1 releases without. Go's version is pinned, because another one compiles other bytes.
.PHONY: release release-binary release-push release-verify release-check release-again release-machines
release release-binary release-push release-verify release-check release-again release-machines: export GOTOOLCHAIN := go1.26.8
release: ## Everything that users download, in dist/: make release VERSION=v0.1.0; docs/contributing/releasing.md
	go -C release run . build --version '$(VERSION)' --source '$(CURDIR)' --output '$(abspath $(DIST))' \
	  $(if $(VULNDB),--vuln-db '$(VULNDB)') $(if $(NO_VULN_CHECK),--no-vuln-check)

# For `release build`, which asks for each program and platform. Without the state of the checkout in it, a program is the same from
# a clone without tags, too.
release-binary: export GOFLAGS += -buildvcs=false
release-binary:
	$(if $(filter ccmadm,$(PROGRAM)),$(CLIBUILD),$(GOBUILD)) -o '$(OUT)' ./cmd/$(PROGRAM)

release-verify: ## Compare dist/ with its checksums, provenance and signature: make release-verify KEY=cosign.pub
	go -C release run . verify '$(abspath $(DIST))' $(if $(KEY),--key '$(abspath $(KEY))')

release-push: ## Push the images of dist/: make release-push VERSION=v0.1.0 REGISTRY=ghcr.io/ccmadm
	go -C release run . push '$(abspath $(DIST))' --version '$(VERSION)' --registry '$(REGISTRY)'

# Its keys are those of the first time. The clone has another path and an empty build cache, so that nothing of the first is used.
release-again: ## Make the release of dist/ once more in a clone elsewhere, and compare each file; lintian reads the packages
	command -v lintian >/dev/null || $(ROOT) apt-get install -y --no-install-recommends lintian
	work=$$(mktemp -d) && trap 'rm -rf "$$work"' EXIT && git clone --quiet . "$$work/clone" && \
	  GOCACHE="$$work/cache" $(MAKE) --no-print-directory -C "$$work/clone" release VERSION='$(VERSION)' DIST="$$work/dist" NO_VULN_CHECK=1 && \
	  diff --recursive --brief '$(abspath $(DIST))' "$$work/dist" && echo "$$(wc -l < '$(DIST)/SHA256SUMS') files are the same"
	lintian --fail-on error --tag-display-limit 0 $(DIST)/*.deb

release-machines: lab images ## Machines without ccmadm follow README.md, install.md and verify-a-release.md with the files of dist/
	$(E2E) -v -run '^TestReleased' -args -kubernetes $(K8S) -labs $(LABS) -dist '$(abspath $(DIST))'

# One test compiles ccmadm as a release does, which on a machine without a build cache takes longer than Go's ten minutes for a package.
release-check: ## Lint and test what makes releases; it is a module of its own
	for tool in openssl curl; do command -v $$tool >/dev/null || $(ROOT) apt-get install -y --no-install-recommends $$tool; done
	cd release && go mod tidy -diff && $(LINT) run && go test -count=1 -timeout 40m ./...

# A module of its own. The rules are those of the golden file, which make unit compares with what render prints.
.PHONY: monitoring-check
monitoring-check: ## Try the alerts with Prometheus' rule tests, and parse the queries of the dashboards
	cd test/monitoring && go mod tidy -diff && promtool=$$(./promtool.sh) && go test -count=1 . -args -promtool $$promtool

# A module of its own, with the types of kind and of Cluster API.
.PHONY: examples-check
examples-check: ## Try the files of examples/ that users copy, by the programs and the types that read them
	$(CLIBUILD) -o bin/ccmadm ./cmd/ccmadm
	command -v python3 >/dev/null || $(ROOT) apt-get install -y --no-install-recommends python3
	command -v ip >/dev/null || $(ROOT) apt-get install -y --no-install-recommends iproute2
	cd test/examples && go mod tidy -diff && tools=$$(./tools.sh) && go test -count=1 -timeout 20m . -args -tools $$tools

# A module of its own, with Helm's library. The cluster is the lab's kube-apiserver and etcd.
.PHONY: chart-check
chart-check: bin/lab ## Try the Helm chart: it equals ccmadm render for each provider, and is installed, upgraded and removed
	$(GOBUILD) -o bin/ccmadm ./cmd/ccmadm
	bin/lab build --programs --kubernetes $(K8S)
	cd test/helm && go mod tidy -diff && go test -count=1 -timeout 20m .

# A module of its own, and one for each implementation of the Gateway API, whose program is built from its release.
.PHONY: gateway-check
gateway-check: bin/lab ## Try Gateways of Contour and Envoy Gateway: addresses of pools, refusals, sharing, admission
	$(CLIBUILD) -o bin/ccmadm ./cmd/ccmadm
	$(GOBUILD) -o bin/cloud-controller-manager ./cmd/cloud-controller-manager
	bin/lab build --programs --kubernetes $(K8S)
	set -e; for i in contour envoygateway; do \
	  (cd test/gateway/$$i && go mod tidy -diff && go build -ldflags '-s -w' -o '$(CURDIR)/bin/' tool); done
	cd test/gateway && go mod tidy -diff && $(ROOT) go test -count=1 -timeout 20m .

# VitePress, with the versions of site/package-lock.json; node_modules is made once for each of them. Its digest tells them apart: `times`
# dates the file years back.
MODULES := site/node_modules/.of-$(shell sha256sum site/package-lock.json | cut -c -12)
.PHONY: docs docs-check
$(MODULES):
	command -v npm >/dev/null || $(ROOT) apt-get install -y --no-install-recommends nodejs npm
	npm --prefix site ci --ignore-scripts --no-audit --no-fund
	touch $@

docs: $(MODULES) ## Build the documentation site from docs/; docs/contributing/site.md
	node site/pictures.mjs --check
	npm --prefix site run build

docs-check: docs ## Open the site in headless Chromium: search by symptoms, errors of the console, requests to other hosts
	command -v chromium >/dev/null || $(ROOT) apt-get install -y --no-install-recommends chromium
	npm --prefix site run check

demo: lab images ## Boot three machines and turn them into a cluster with ccmadm init and ccmadm join
	LAB='$(LAB)' test/lab/demo.sh

demo-down: ## Remove every trace of the demo
	$(LAB) down --name demo

test: verify ## Lint, unit tests, real clusters of every minor; set-up included

check: tidy generated lint short ## What to run between two edits: no root, no lab, no cluster
	@echo 'left to `make unit`: tests against a real API server; left to `make e2e`: tests on machines'

short:
	go test -short ./...

# The cached results of root say nothing about another user. Without packages whose tests never ask the operating system.
ordinary: committed ## The tests of make check as an ordinary user, also where root runs this, from what is committed
	test/ordinary.sh go test -short -count=1 $$(go list ./... | grep -v -e /provider -e /agent -e /api/ -e /test/)

# The kit runs upstream's service controller, which races with itself: a worker writes cachedService.state while the
# node worker reads it in allServices (k8s.io/cloud-provider v0.36 controllers/service/controller.go:339 and :503).
# A package has half an hour: beside compilers, those of phases came near to twenty minutes.
# CCMADM_TEST=cluster: whatever lacks the lab's kube-apiserver and etcd fails, where `go test` would leave it out. The linker writes down
# what these are made of: other programs, other tests, and `go test` has no cached results. Variables that TestMain reads do not count.
CLUSTER = CCMADM_TEST=cluster \
  GOFLAGS="$(GOFLAGS) -ldflags=-X=github.com/ccmadm/ccmadm/manifests/manifeststest.lab=$$(git ls-files -s test/lab | sha256sum | cut -c -12)"
unit: bin/lab ## Tests of the packages, with -race where they have goroutines, against a real API server
	bin/lab build --programs --kubernetes $(K8S)
	$(MAKE) --no-print-directory unit-time
	$(MAKE) --no-print-directory -j 4 unit-race unit-half unit-rest unit-kit

# Dozens of runs, one behind the other, cut short behind each phase: left to make long, and without -race.
SWEEPS := BehindEachPhase|Rollback_AdoptAndLeave|Leave_PurgeCutShort
# Where goroutines of ours share something. make race has the others with -race, too.
RACY   := ./provider/... ./agent/... ./cmd/node-agent ./doctor/rehearsal ./manifests/apply ./phases/journal

# Who owns an address is a matter of milliseconds: these run before all that takes processors.
unit-time:
	$(ROOT) env CGO_ENABLED=1 $(CLUSTER) go test -race -timeout 30m -parallel 6 $$(go list ./provider/announce/... | grep -v /quorum)
	$(ROOT) env $(CLUSTER) go test ./provider/announce/l2 -run 'Thousand|FollowerPartition'

unit-race:
	$(ROOT) env CGO_ENABLED=1 $(CLUSTER) go test -race -timeout 30m -parallel 6 $$(go list $(RACY) | grep -v -e /conformance -e /announce)

race: bin/lab ## All packages with -race
	bin/lab build --programs --kubernetes $(K8S)
	$(ROOT) env CGO_ENABLED=1 $(CLUSTER) go test -race -skip '$(SWEEPS)' -timeout 30m -parallel 6 $$(go list ./... | grep -v -e /test/e2e -e /conformance)

unit-kit:
	$(ROOT) env $(CLUSTER) go test -timeout 30m -parallel 6 ./provider/conformance/...

# What waits for one thing after the other begins first.
HALF := ./phases/adoption ./phases/upgrade
unit-half:
	$(ROOT) env $(CLUSTER) go test -skip '$(SWEEPS)' -timeout 45m $(HALF)
# quorum has no goroutines and a clock of its own, and its histories take four times as long with -race: make race has them.
unit-rest:
	$(ROOT) env $(CLUSTER) go test -skip '$(SWEEPS)' -timeout 30m -parallel 6 ./phases ./doctor/lbtest ./provider/announce/quorum \
	  $$(go list ./... | grep -vxF -f <(go list $(RACY) $(HALF)) | grep -v /test/e2e)

# Beside others, on few processors, something may come later than any test waits for. Up to two tests have another try,
# alone, and the end says which: a defect fails there, too. bin/second-LABS has their names for verify, which counts them
# over all of its runs.
define machines
: > bin/second-$(4); \
  run() { $(E2E) -json -parallel $(1) -run "$$1" -skip '$(SKIP)' -args -kubernetes $(3) -labs $(4) $(ARGS) | $(SUMMARY) -again bin/again-$(4); }; \
  run '$(2)' || { failed=$$(cat bin/again-$(4)); [ -n "$$failed" ] && run "$$failed" && \
  echo "$(3) $$failed" > bin/second-$(4) && echo "FAILED BESIDE OTHERS, passed alone: $$failed"; }
endef

# Vendors' managers are among these.
faults adopt: K8S := $(VENDORS)

e2e: lab images ## Tests on real machines: make e2e K8S=1.35 RUN=StaticPod
	$(call machines,$(LANES),$(RUN),$(K8S),$(LABS))

long: ## What `make e2e` leaves out for its length: every profile's pod, vendors' managers, Gateways, upgraded by hand, killed at random
	$(MAKE) e2e RUN='$(LONG)' SKIP='^TestMeasure|$(VENDORS_TESTS)' ARGS='$(ARGS)'
	$(MAKE) e2e RUN='$(VENDORS_TESTS)' SKIP='^TestMeasure|^TestUpgrade' K8S=$(VENDORS) ARGS='$(ARGS)'
	set -e; for minor in $(OLDER); do $(MAKE) e2e RUN=^TestConfigurer K8S=$$minor; done
	$(ROOT) env $(CLUSTER) go test -timeout 20m -run '$(SWEEPS)' ./phases/...
	$(ROOT) go test -count=1 -p 1 ./provider/announce/...
	$(MAKE) gateway-check

faults: lab images ## Every fault of the library, and docs/contributing/faults.md from what it has seen; make e2e has pairs of them, make long two of each kind
	rm -f bin/measured/faults-*.md
	$(LAB) build --install --kubernetes $(K8S) --ccm openstack,aws,vsphere,sample
	$(E2E) -json -parallel 4 -run ^TestFaults_ -args -kubernetes $(K8S) -labs $(LABS) -faults $(ARGS) | $(SUMMARY)
	cat test/e2e/faults.md bin/measured/faults-{objects,static,daemonset,inventory,openstack,aws,vsphere,sample,pairs}.md > docs/contributing/faults.md

# The page is judged by a person: make chaos SEEDS=50 FIRST=101 makes seeds that were not used while the doctor was written. CLUSTERS run
# side by side: of provider onprem, of upstream's sample of a manager, and so on.
SEEDS    ?= 20
FIRST    ?= 1
CLUSTERS ?= 2
chaos: lab images ## Mutate healthy clusters at random, check what is broken, ask the doctor; bin/measured/chaos.md
	$(E2E) -timeout 600m -parallel $(CLUSTERS) -json -run '^TestChaos$$' -args -kubernetes $(K8S) -labs $(LABS) \
	  -clusters $(CLUSTERS) -seeds $(SEEDS) -first $(FIRST) | $(SUMMARY)

# MetalLB and kube-vip are built for it, which takes some minutes the first time; keepalived and HAProxy are Debian's. For
# ours alone, with kube-proxy in another mode: make e2e RUN=MeasureLoadBalancer SKIP= ARGS='-proxy iptables'
measure: ## What clients lose when agents, Nodes and the API server go, beside MetalLB, keepalived and kube-vip; tables in bin/measured
	$(MAKE) e2e RUN=^TestMeasure SKIP= ARGS='-contenders $(ARGS)'

adopt: ## Adopt and leave at length: three control planes, by hand, over SSH, AWS, other providers, killed at random; make adopt ARGS='-kills 40'
	$(MAKE) e2e RUN=^TestAdopt_ SKIP=^TestMeasure ARGS='$(ARGS)'

# The page has the last result of each suite, whatever became of the run. Each mode of kube-proxy has machines of its own.
# One suite alone: make upstream MODES=iptables RUN=^TestUpstreamAll/BGP_LoadBalancers
MODES   ?= nftables iptables
upstream: lab images ## Kubernetes' own tests, unchanged, at L2, BGP and NodeIP, and docs/contributing/upstream-tests.md
	status=0; \
	for mode in $(MODES); do \
	  $(E2E) -timeout 600m -json -run '$(if $(filter .,$(RUN)),^TestUpstreamAll,$(RUN))' -args -kubernetes $(K8S) -labs $(LABS) \
	    -proxy $$mode $(ARGS) | $(SUMMARY) || status=1; done; \
	go test ./test/e2e -count=1 -run TestTablesUpstreamPage -update; exit $$status

# The page has what the last run saw. Some of them, without the page: make e2e RUN=^TestUpstreamMetalLB SKIP=^TestMeasure ARGS='-metallb L2'
upstream-metallb: lab images ## MetalLB's own tests, unchanged, against ccmadm, and docs/contributing/metallb-tests.md; hours
	rm -f bin/measured/metallb-tests-*
	$(E2E) -timeout 360m -json -run '^TestUpstreamMetalLB' -args -kubernetes $(K8S) -labs $(LABS) $(ARGS) | $(SUMMARY)
	cat test/e2e/metallb-tests.md <(sort -u bin/measured/metallb-tests-*.rows) > docs/contributing/metallb-tests.md

upgrades: ## ccmadm upgrade on machines, to each minor version from the one before it, poisoned and killed on the way
	$(MAKE) e2e RUN=^TestUpgrade SKIP='^TestMeasure|$(VENDORS_TESTS)' ARGS='$(ARGS)'
	set -e; for minor in $(OLDER); do $(MAKE) e2e RUN=^TestUpgrade K8S=$$minor \
	  SKIP="^TestMeasure|^TestUpgrade_(Crash|OfCcmadm)$$([ $$minor = $(VENDORS) ] || echo '|$(VENDORS_TESTS)')"; done

bench: lab images ## Measure against bare kubeadm, and thousands of Nodes against a bare client, side by side in one run
	$(E2E) -v -run '^$$' -bench . -args -kubernetes $(K8S) -labs $(LABS)
	$(MAKE) bench-scale

bench-scale: build ## Only the thousands of Nodes
	go test ./provider/routes -count=1 -run '^$$' -bench .
	$(CLUSTER) go test ./doctor/diagnosis -count=1 -timeout 30m -run '^$$' -bench .
	go test ./test/scale -count=1 -timeout 30m -v -run '^$$' -bench . -args -ccm $(CURDIR)/bin/cloud-controller-manager

tidy:
	go mod tidy -diff

committed:
	@[ -z "$$(git status --porcelain)" ] || { git status --short; echo 'commit it, or leave it out'; exit 1; }

# Git gives the files of a clone the time of the clone, and `go test` runs again what reads files that have another time. Here it is
# made of the content, so that the cached results of an earlier clone in this place count as long as no file of theirs has changed.
times: committed generated
	@git ls-files -sz | while read -r -d '' mode blob file; do \
	  touch --no-create --no-dereference --date=@$$((946684800 + 0x$${blob:0:7})) -- "$${file#*$$'\t'}"; done
	@git ls-tree -rdz --name-only HEAD | xargs -0 touch --date=@946684800 -- .

generated:
	@state() { git status --porcelain; git diff | sha256sum; }; before=$$(state); $(MAKE) --no-print-directory generate; \
	  [ "$$before" = "$$(state)" ] || { git status --short; echo 'generated files were out of date; they no longer are: look at git diff'; exit 1; }

lint: ## golangci-lint, at the pinned version, and whether it refuses what CONTRIBUTING says
	$(LINT) run
	go run ./test/fences $(LINT)

numbers: ## How large the house is, and what is over its limits
	go run ./test/size

# After a line in api/minors/window.txt. Nothing else names a minor version, but vendors' releases in templates/profiles.
minor: bin/lab ## Know a new minor of Kubernetes: make minor MINOR=1.38 RELEASE=v1.38.0; its modules in the lab, tables, documentation
	bin/lab minor $(MINOR) $(RELEASE)
	bin/lab minors $(MINOR)
	$(MAKE) --no-print-directory generate

next: bin/lab ## Type-check against the newest pre-release of Kubernetes' libraries, and report gates, flags and API fields that differ
	bin/lab next

generate: ## Rewrite docs/reference from the commands
	go generate ./...

# Cheap things first; all that has to be built, in one go, before anything waits for a processor; then the tests.
verify: tidy committed generated times lint release-check monitoring-check examples-check bin/lab ## What CI runs
	$(LAB) build --install --kubernetes $(subst $(space),$(comma),$(MINORS)) --ccm openstack,sample
	$(LAB) upstream $(NEWEST)
	$(MAKE) chart-check
	$(MAKE) unit
	$(MAKE) --no-print-directory ordinary
	$(MAKE) --no-print-directory lab images
	$(MAKE) --no-print-directory -j 2 on-$(NEWEST) on-older
	$(MAKE) committed
	$(SUMMARY) -second bin/second-e2e $(foreach minor,$(OLDER),bin/second-e2e-$(subst .,,$(minor)))

# On the newest minor everything, on those before it what may differ.
on-$(NEWEST): SKIP := $(SKIP)$(if $(filter $(VENDORS),$(NEWEST)),,|$(VENDORS_TESTS))
on-$(NEWEST):
	$(call machines,3,$(RUN),$(NEWEST),e2e)
# One after the other, beside three. With six clusters at once on two processors machines were not made in time.
on-older:
	set -e; for minor in $(OLDER); do $(MAKE) --no-print-directory on-$$minor; done
$(OLDER:%=on-%): on-%:
	$(call machines,1,^Test(StaticPod|Catalogue_Apply)$(if $(filter $(VENDORS),$*),|$(VENDORS_TESTS)),$*,e2e-$(subst .,,$*))
