package phases

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

const (
	listOne = "apiVersion: ccmadm.dev/v1alpha1\nkind: Inventory\nmetadata: {site: ber1, serial: 1}\n" +
		"machines: [{id: r1, hostname: cp1}]\n"
	pointer = phasestest.OnpremHead + "inventory:\n  configMap: ccmadm-machines\n"
)

// listedIn is the list of the tests' API server.
func listedIn(t *testing.T, client corev1client.CoreV1Interface) string {
	t.Helper()
	object, err := client.ConfigMaps(v1alpha1.Namespace).Get(t.Context(), "ccmadm-machines", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return object.Data["inventory.yaml"]
}

// Control planes have one list, in a ConfigMap; a second init changes it only for one that is newer.
func TestCluster_Inventory(t *testing.T) {
	m, _ := phasestest.ControlPlaneMachine(t, phasestest.Cluster.Config)
	client := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config).CoreV1()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		err := client.ConfigMaps(v1alpha1.Namespace).Delete(ctx, "ccmadm-machines", metav1.DeleteOptions{})
		other := client.Secrets(v1alpha1.Namespace).Delete(ctx, v1alpha1.CloudConfigName, metav1.DeleteOptions{})
		if err := errors.Join(err, other); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(t.TempDir(), "machines.yaml")
	given := phasestest.Run{Config: phasestest.InitConfig}
	given.Inputs.Flags = config.CloudConfiguration{Inventory: path, ClusterName: "ber1"}
	init := func(r phasestest.Run, document string, phases ...workflow.Phase) (string, error) {
		t.Helper()
		if err := os.WriteFile(path, []byte(document), 0o600); err != nil {
			t.Fatal(err)
		}
		return r.InOneRun(t, m, phases...)
	}
	if out, err := init(given, listOne, manager.ControlPlane(), manager.CloudConfig()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	publish(t, m, config.CloudConfiguration{ClusterName: "ber1"})
	if got := machinetest.Content(m, "/etc/kubernetes/cloud-config/cloud.conf"); got != pointer {
		t.Errorf("the static pod's cloud.conf is\n%s", got)
	}
	if there, err := m.Exists("/etc/kubernetes/cloud-config/inventory.yaml"); err != nil || there {
		t.Errorf("this control plane has a copy of its own: %v, %v", there, err)
	}

	other := strings.Replace(listOne, "hostname: cp1", "hostname: cp2", 1)
	newer := strings.Replace(other, "serial: 1", "serial: 2", 1)
	for _, tc := range []struct {
		name     string
		run      phasestest.Run
		document string
		want     string // in the cluster afterwards
		wantErr  string
	}{
		{name: "the same list", run: given, document: listOne, want: listOne},
		{
			name: "a list that differs, of the same serial", run: given, document: other, want: listOne,
			wantErr: "replace ConfigMap/kube-system/ccmadm-machines: " + path + " differs, and its serial is 1, there it is 1",
		},
		{name: "a newer list", run: given, document: newer, want: newer},
		{name: "the first list", run: given, document: listOne, want: newer, wantErr: "its serial is 1, there it is 2"},
		{name: "no list", run: phasestest.Run{Config: phasestest.InitConfig}, document: "not read", want: newer},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, p := range []workflow.Phase{{Name: "preflight", Run: manager.CheckCloudConfig}, manager.CloudConfig()} {
				_, err := init(tc.run, tc.document, p)
				phasestest.WantError(t, err, tc.wantErr, finding.ExitRefused)
			}
			if got := listedIn(t, client); got != tc.want {
				t.Errorf("the cluster's list is\n%s", got)
			}
			secret, err := client.Secrets(v1alpha1.Namespace).Get(t.Context(), v1alpha1.CloudConfigName, metav1.GetOptions{})
			if err != nil || len(secret.Data) != 1 || string(secret.Data["cloud.conf"]) != pointer {
				t.Errorf("the Secret is %q, %v", secret.Data, err)
			}
		})
	}
	if out, err := init(phasestest.Run{Config: phasestest.InitConfig}, "", manager.ControlPlane()); err != nil || machinetest.Content(m, machine.CCMManifest) == "" {
		t.Errorf("%v\n%s", err, out)
	}
}
