package upgrade

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/existingtest"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// Where the manager is released with ccmadm, a newer ccmadm writes the record before it brings the manager along: with
// several control planes that is the turn of the last one. Its image is still the profile's by then, and follows; one
// that the user has named stays.
func TestCluster_Upgrade_WhoHasChosenTheImage(t *testing.T) {
	const repository, mine = "ghcr.io/ccmadm/cloud-controller-manager:", "registry.example/mine:1"
	for _, tt := range []struct {
		name, image, ownAgent, want, agent string
		older                              bool // the record is of before there was a field for it
	}{
		{name: "the profile", want: repository + "v2", agent: "v2"},
		{name: "the profile, in an older record", want: repository + "v2", agent: "v2", older: true},
		{
			name:     "the profile, and the user the agent's, of the same release",
			ownAgent: "registry.example/node-agent:test", want: repository + "v2", agent: "test",
		},
		{name: "the user", image: mine, want: mine, agent: "test"},
		{name: "the user, in an older record", image: mine, want: mine, agent: "test", older: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := &upgradable{client: kubernetes.NewForConfigOrDie(phasestest.Cluster.Config)}
			u.living(t, config.CloudConfiguration{
				Provider: "onprem", Mode: config.ModeDaemonSet, ClusterName: "ber1",
				ControllerManager: config.ControllerManager{Image: tt.image},
				NodeAgent:         config.AgentPolicy{Enabled: new(true), Image: tt.ownAgent},
			})
			before := u.managerImage(t)
			u.node(t, "cp2", true)
			u.kubelet(t, nil)
			u.kubeadm(t, "cp1")
			if tt.older {
				u.forgetWhoChose(t)
			}
			u.version = "v2"
			if out, err := u.do(t, Upgrade{Version: "v1.36.3"}); err != nil || u.managerImage(t) != before {
				t.Fatalf("the manager was %s, and is %s: %v\n%s", before, u.managerImage(t), err, out)
			}
			u.second(t)
			if out, err := u.do(t, Upgrade{}); err != nil || u.managerImage(t) != tt.want {
				t.Errorf("the manager is %s, %v, want %s\n%s", u.managerImage(t), err, tt.want, out)
			}
			if agent := u.imageOf(t, v1alpha1.AgentName); settings.TagOf(agent) != tt.agent {
				t.Errorf("the agent is %s, want that of release %s", agent, tt.agent)
			}
			ran := u.ran()
			if out, err := u.do(t, Upgrade{}); err != nil || u.ran() != ran || strings.Contains(out, "configured") {
				t.Errorf("once more: %v\n%s", err, out)
			}
		})
	}
}

// An image that is named on the first control plane is the one that the last brings along, also where the profile has
// none for the version; what runs in between keeps it, and a rollback does not.
func TestCluster_Upgrade_ANamedImageWaitsForItsTurn(t *testing.T) {
	const mine = "registry.example/mine:1"
	u := newUpgradable(t)
	before := u.managerImage(t)
	u.node(t, "cp2", true)
	u.kubelet(t, nil)
	u.kubeadm(t, "cp1")
	out, err := u.do(t, Upgrade{Version: "v1.36.3", Image: mine})
	if err != nil || u.managerImage(t) != before || !strings.Contains(out, "having "+mine+" pulled") {
		t.Fatalf("the manager is %s: %v\n%s", u.managerImage(t), err, out)
	}
	if out, err := u.do(t, Upgrade{Version: "v1.36.3"}); err != nil {
		t.Fatalf("once more: %v\n%s", err, out)
	}
	if out, _, err := existingtest.ApplyRun(t, u.m, phasestest.CloudDocument+"lifecycle: \"Off\"\n", workflow.Inputs{Command: "apply"}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	u.second(t)
	if out, err := u.do(t, Upgrade{}); err != nil || u.managerImage(t) != mine {
		t.Errorf("the manager is %s, %v\n%s", u.managerImage(t), err, out)
	}
	rec, err := workflow.ReadRecord(t.Context(), u.client)
	if err != nil || rec.NextImage != "" || rec.ImageBy != state.ImageByUser {
		t.Errorf("the record says %+v, %v", rec, err)
	}
}

// forgetWhoChose makes the record one of an older ccmadm.
func (u *upgradable) forgetWhoChose(t *testing.T) {
	t.Helper()
	maps := u.client.CoreV1().ConfigMaps("kube-system")
	cm, err := maps.Get(t.Context(), v1alpha1.RecordName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rec, err := state.DecodeRecord("test", []byte(cm.Data[v1alpha1.RecordKey]))
	if err != nil || rec.ImageBy == "" {
		t.Fatalf("the record says %+v, %v", rec, err)
	}
	rec.ImageBy = ""
	data, err := rec.Encode()
	if err != nil {
		t.Fatal(err)
	}
	ours, err := corev1ac.ExtractConfigMap(cm, v1alpha1.FieldManager)
	if err != nil {
		t.Fatal(err)
	}
	ours.WithData(map[string]string{v1alpha1.RecordKey: string(data)})
	if _, err := maps.Apply(t.Context(), ours, metav1.ApplyOptions{FieldManager: v1alpha1.FieldManager}); err != nil {
		t.Fatal(err)
	}
}

// Two that begin at the same time have the image pulled each on its own machine: neither takes the other's pod away.
func TestCluster_Upgrade_PullsBesideAnother(t *testing.T) {
	u := newUpgradable(t)
	pods := u.client.CoreV1().Pods("kube-system")
	other, err := pods.Create(t.Context(), podOfImage(u.images["1.36"], "cp2"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
		if err := pods.Delete(context.WithoutCancel(t.Context()), other.Name, now); err != nil {
			t.Error(err)
		}
	})
	u.kubeletOf(t, "cp1", nil)
	u.kubeadm(t, "cp1")
	if out, err := u.do(t, Upgrade{Version: "v1.36.3"}); err != nil || u.managerImage(t) != u.images["1.36"] {
		t.Errorf("%v\n%s", err, out)
	}
	list, err := pods.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	left := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return !strings.HasPrefix(p.Name, imagePod) })
	if len(left) != 1 || left[0].UID != other.UID {
		t.Errorf("left are %v", left)
	}
}
