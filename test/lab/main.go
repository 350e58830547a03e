//go:build linux

// Command lab boots bare Kubernetes machines on one Linux box: no Docker, no virtual machine, no registry.
//
// A machine is a set of namespaces with systemd as PID 1 on an overlay over one Debian root: containerd, a kubelet unit
// with kubeadm's drop-in, kubeadm, kubectl and every image kubeadm wants, and nothing initialized. Start at [newUp].
//
//	go build -o bin/lab ./test/lab        # `go run` hides the exit code of exec
//	bin/lab up                            # cp1 w1 w2
//	bin/lab exec cp1 -- kubeadm init --config /etc/lab/kubeadm.yaml
//	bin/lab exec w1 -- kubeadm join ... --ignore-preflight-errors=SystemVerification
//	bin/lab network                       # pod network, again after every join
//	bin/lab load $(bin/lab ccm aws)       # a vendor's cloud-controller-manager, built from its Go module
//	bin/lab metallb                       # images and manifest of MetalLB, which ours is measured beside
//	bin/lab release MINOR                 # programs and images of another minor, for an upgrade by hand
//	bin/lab upstream MINOR                # Kubernetes' own tests, and their images
//	bin/lab kill w2; bin/lab start w2     # a power cut, and the power is back
//	bin/lab down
//
// Once everything is built, three machines are up in two to four seconds; the first build of a Kubernetes version takes
// ten to twelve minutes on two cores. Run as root and inside the repository.
//
// SystemVerification is the only preflight check to ignore: it refuses cgroup v1 and wants a kernel configuration to
// read. For several control planes use --control-plane-endpoint=api:8443: on every machine the name api is a local
// proxy to all of them, so the cluster survives the loss of any.
//
// Reads: the nested Go modules in test/lab, which pin every binary, and a Debian mirror.
// Writes: a cache (--cache) of what was built, and per lab a folder of the state directory (--state), cgroups named
// ccmadm-lab-NAME-MACHINE and a network namespace. The host's own links, routes and cgroups stay as they are, and so do
// its sysctls, but for one limit that --install may raise for a while (see limits.go). The bridge of a lab lives in a namespace of its own, so its addresses (198.18.0.0/15) are seen only by its machines.
// Running up twice: machines that run are left alone, missing ones are added, half-made ones are made anew.
// It does not limit memory or CPU, and machines share the kernel of the host, its clock and its DMI data.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := newRoot().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab: error:", err)
		os.Exit(1)
	}
}
