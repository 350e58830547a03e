package main

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests/manifeststest"
)

// plane is the control plane that all tests share whose name starts with TestCluster; -short leaves those out.
var plane *manifeststest.ControlPlane

func TestMain(m *testing.M) { os.Exit(manifeststest.Main(m, &plane)) }

// The report is made once there is a Node, which owns it, follows what there is to say, and comes back when somebody
// has deleted it.
func TestCluster_Report(t *testing.T) {
	_, err := envtest.InstallCRDs(plane.Config, envtest.CRDInstallOptions{Paths: []string{"../../manifests/crds"}})
	if err != nil {
		t.Fatal(err)
	}
	o := options{nodeName: "n1", version: "v1"}
	c, err := newCaches(plane.Config)
	if err != nil {
		t.Fatal(err)
	}
	report, err := newReporter(plane.Config, o, c)
	if err != nil {
		t.Fatal(err)
	}
	var routed atomic.Int32
	report.sources = append(report.sources, func(s *v1alpha1.NodeAgentStatus) { s.Routed = routed.Load() })
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	running.Go(func() { c.nodes.RunWithContext(ctx) })
	running.Go(func() { report.run(ctx) }) // before there is a Node

	client, err := kubernetes.NewForConfig(plane.Config)
	if err != nil {
		t.Fatal(err)
	}
	node, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wantReport := func(want int32) *v1alpha1.NodeAgent {
		t.Helper()
		var got *v1alpha1.NodeAgent
		err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, renewPeriod/2, true, func(ctx context.Context) (bool, error) {
			got, err = report.agents.Get(ctx, "n1", metav1.GetOptions{})
			return err == nil && got.Status.Routed == want && !got.Status.RenewTime.IsZero(), nil
		})
		if err != nil {
			t.Fatalf("want a report of %d routes, got %+v: %v", want, got, err)
		}
		return got
	}
	first := wantReport(0)
	if owners := first.OwnerReferences; len(owners) != 1 || owners[0].UID != node.UID || first.Status.Version != "v1" {
		t.Errorf("owners %v, version %q", owners, first.Status.Version)
	}
	routed.Store(3)
	report.changed()
	wantReport(3)
	if err := report.agents.Delete(ctx, "n1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	routed.Store(4)
	report.changed()
	if again := wantReport(4); again.UID == first.UID {
		t.Error("it is the same object")
	}
}
