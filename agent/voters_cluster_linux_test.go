package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// An agent that starts is bound by the list that three of its five Nodes report, writes it and the newest one into its own
// report, and starts again with both.
func TestCluster_Run_Voters(t *testing.T) {
	applyDefinitions(t)
	ours, err := objects.New(plane.Config)
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(plane.Config)
	deleteAll := func(ctx context.Context) { // agents of other tests would have votes
		all := metav1.ListOptions{}
		err := errors.Join(ours.NodeAgents.DeleteCollection(ctx, metav1.DeleteOptions{}, all),
			client.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, all))
		if err != nil {
			t.Fatal(err)
		}
	}
	deleteAll(t.Context())
	t.Cleanup(func() { deleteAll(context.Background()) })
	older := []string{"v1", "v2", "v3", "v4", "v5"}
	digest := sha256.Sum256([]byte(strings.Join(older, "\x00")))
	list := v1alpha1.VoterList{ID: hex.EncodeToString(digest[:8]), Nodes: older}
	for _, name := range older {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if name == "v1" || name == "v5" {
			continue
		}
		agent := &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if agent, err = ours.NodeAgents.Create(t.Context(), agent, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		agent.Status.RenewTime, agent.Status.Voters = metav1.NowMicro(), []v1alpha1.VoterList{list}
		if _, err = ours.NodeAgents.UpdateStatus(t.Context(), agent, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	data, err := plane.Kubeconfig("agent", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		began := time.Now()
		cancel, ended := start(t, Options{NodeName: "v1", Kubeconfig: kubeconfig})
		var voters []v1alpha1.VoterList
		for ; ; time.Sleep(50 * time.Millisecond) {
			report, err := ours.NodeAgents.Get(t.Context(), "v1", metav1.GetOptions{})
			if err == nil && report.Status.RenewTime.After(began) {
				voters = report.Status.Voters
			}
			if len(voters) > 1 && slices.Contains(voters[len(voters)-1].Nodes, "v1") { // once it has read its own report
				break
			}
			if len(ended) > 0 || time.Since(began) > time.Minute {
				t.Fatalf("it reports %+v: %v", report, err)
			}
		}
		if diff := cmp.Diff(list, voters[0]); diff != "" {
			t.Errorf("the oldest list (-want +got):\n%s", diff)
		}
		if newest := voters[len(voters)-1].Nodes; slices.Contains(newest, "v5") {
			t.Errorf("the newest list is %v, want the Nodes with an agent", newest)
		}
		ends(t, cancel, ended)
	}
}
