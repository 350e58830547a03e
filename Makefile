.DEFAULT_GOAL := help
SHELL   := /bin/bash
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
K8S     ?= 1.36
RUN     ?= .
LINT    := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.12.2
# client-go and the controllers name these versions in their logs and to the API server.
LIBS    := $(shell awk '$$1 == "k8s.io/kubernetes" {print $$2}' go.mod)
LDFLAGS := -s -w -buildid= -X main.version=$(VERSION) -X k8s.io/component-base/version.gitVersion=$(LIBS) -X k8s.io/client-go/pkg/version.gitVersion=$(LIBS)
GOBUILD := CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)'
CCM     := ghcr.io/ccmadm/cloud-controller-manager:$(VERSION)
# The lab needs root: namespaces, mounts, cgroups. The PATH goes along, because it builds Kubernetes with go.
ROOT    := $(shell [ "$$(id -u)" = 0 ] || echo 'sudo env "PATH=$$PATH" "HOME=$$HOME"')
LAB     := $(ROOT) bin/lab

.PHONY: help build lab ccms images demo demo-down test unit e2e bench bench-scale lint generate verify

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build bin/ccmadm and bin/cloud-controller-manager, static and reproducible
	$(GOBUILD) -o bin/ccmadm ./cmd/ccmadm
	$(GOBUILD) -o bin/cloud-controller-manager ./cmd/cloud-controller-manager

lab: ## Build bin/lab, and what its machines are made of; installs Debian packages that are missing
	CGO_ENABLED=0 go build -o bin/lab ./test/lab
	$(LAB) build --install --kubernetes $(K8S)

# The tests build them where they are missing, beside labs that would then wait for the processor.
ccms: lab ## Build the vendors' cloud-controller-managers that e2e runs
	for c in aws openstack vsphere sample; do $(LAB) ccm $$c || exit 1; done

images: build ## Build container images as archives under bin/images, without Docker and without a registry
	CGO_ENABLED=0 go build -o bin/lab ./test/lab
	mkdir -p bin/images
	bin/lab image --name $(CCM) --binary bin/cloud-controller-manager --user 65532 --output bin/images/cloud-controller-manager.tar

demo: lab images ## Boot three machines and turn them into a cluster with ccmadm init and ccmadm join
	LAB='$(LAB)' test/lab/demo.sh

demo-down: ## Remove every trace of the demo
	$(LAB) down --name demo

test: verify ## Everything: lint, unit tests, real clusters of every minor; set-up included

unit: ## Tests of the packages; some start a real API server, which the lab's build provides
	go test -race -parallel 6 $$(go list ./... | grep -v /test/e2e)

e2e: lab images ## Tests on real machines: make e2e K8S=1.35 RUN=StaticPod
	$(ROOT) go test ./test/e2e -count=1 -timeout 60m -parallel 3 -v -run '$(RUN)' -args -kubernetes $(K8S)

bench: lab images ## Measure against bare kubeadm, and thousands of Nodes against a bare client, side by side in one run
	$(ROOT) go test ./test/e2e -count=1 -timeout 30m -v -run '^$$' -bench . -args -kubernetes $(K8S)
	$(MAKE) bench-scale

bench-scale: build ## Only the thousands of Nodes
	go test ./test/scale -count=1 -timeout 30m -v -run '^$$' -bench . -args -ccm $(CURDIR)/bin/cloud-controller-manager

lint: ## golangci-lint, at the pinned version
	$(LINT) run

generate: ## Rewrite docs/reference from the commands
	go generate ./...

verify: lint generate lab ccms unit e2e ## What CI runs, and then: nothing left to tidy or to commit
	$(MAKE) e2e K8S=1.35 RUN='^Test(StaticPod|Hooks|Configurer|Catalogue_Apply)'
	$(MAKE) e2e K8S=1.34 RUN='^Test(StaticPod|Hooks|Configurer|Catalogue_Apply)'
	go mod tidy -diff
	git diff --exit-code
	test -z "$$(git status --porcelain)"
