package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/url"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/manifests/manifeststest"
)

// A static pod starts before the API server that it needs: it waits, is healthy
// meanwhile, and then does not dawdle.
func TestCluster_LateAPIServer(t *testing.T) {
	server, err := url.Parse(plane.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	address, listen := manifeststest.Bound(t)
	kubeconfig := bytes.ReplaceAll(controllerManager(t), []byte(server.Host), []byte(address))
	join(t, "early", "198.18.0.2", corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{MachineID: machine1}})

	p := start(t, kubeconfig)
	p.says("connection refused")
	p.healthy()

	go forward(listen(), server.Host)
	answered := time.Now()
	initialized(t, "early")
	t.Logf("initialized %s after the API server answered", time.Since(answered).Round(time.Millisecond))
}

// forward lends the listener to a server.
func forward(listener net.Listener, to string) {
	for {
		from, err := listener.Accept()
		if err != nil {
			return
		}
		back, err := net.Dial("tcp", to)
		if err != nil {
			_ = from.Close()
			return
		}
		go pipe(back, from)
		go pipe(from, back)
	}
}

func pipe(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
}

// RBAC comes when kubeadm's API server is up, and the process is older: it says
// what is missing, and nothing is forbidden to it once the permissions are there.
func TestCluster_WaitsForRBAC(t *testing.T) {
	user := fmt.Sprintf("late-%d", time.Now().UnixNano()) // who has no permissions from an earlier run
	kubeconfig, err := plane.Kubeconfig(user)
	if err != nil {
		t.Fatal(err)
	}
	node := join(t, "waiting", "198.18.0.2", corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{MachineID: machine2}})
	p := start(t, kubeconfig, "--leader-elect-resource-name="+user)
	p.says("permission to create leases.coordination.k8s.io in namespace kube-system")
	p.healthy()

	grant(t, user, user)
	granted := time.Now()
	initialized(t, "waiting")
	t.Logf("initialized %s after RBAC went in", time.Since(granted).Round(time.Millisecond))
	event(t, node, "Synced")
	if code := p.stop(); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
	compareWithAudit(t, user)
}

// A process that waits ends when it is told to.
func TestCluster_StopsWhileWaiting(t *testing.T) {
	kubeconfig, err := plane.Kubeconfig("nobody-in-particular")
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, kubeconfig)
	p.says("permission to")
	if code := p.stop(); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
}
