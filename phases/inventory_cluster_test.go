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

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
)

const (
	listOne = "apiVersion: ccmadm.dev/v1alpha1\nkind: Inventory\nmetadata: {site: ber1, serial: 1}\n" +
		"machines: [{id: r1, hostname: cp1}]\n"
	pointer = onpremHead + "inventory:\n  configMap: ccmadm-machines\n"
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

// inOneRun runs phases one after the other.
func (r run) inOneRun(t *testing.T, m *machine.Machine, phases ...Phase) (string, error) {
	t.Helper()
	d, out := r.must(t, m)
	err := Run(t.Context(), d, phases)
	return out.String(), err
}

// Control planes have one list, in a ConfigMap; a second init changes it only for one that is newer.
func TestCluster_Inventory(t *testing.T) {
	m, _ := controlPlaneMachine(t, cluster.Config)
	client := kubernetes.NewForConfigOrDie(cluster.Config).CoreV1()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		err := client.ConfigMaps(v1alpha1.Namespace).Delete(ctx, "ccmadm-machines", metav1.DeleteOptions{})
		other := client.Secrets(v1alpha1.Namespace).Delete(ctx, v1alpha1.CloudConfigName, metav1.DeleteOptions{})
		if err := errors.Join(err, other); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(t.TempDir(), "machines.yaml")
	given := run{config: initConfig}
	given.options.Flags = v1alpha1.CloudConfiguration{Inventory: path, ClusterName: "ber1"}
	init := func(r run, document string, phases ...Phase) (string, error) {
		t.Helper()
		if err := os.WriteFile(path, []byte(document), 0o600); err != nil {
			t.Fatal(err)
		}
		return r.inOneRun(t, m, phases...)
	}
	if out, err := init(given, listOne, controlPlane(), cloudConfig()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	publish(t, m, v1alpha1.CloudConfiguration{ClusterName: "ber1"})
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
		run      run
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
		{name: "no list", run: run{config: initConfig}, document: "not read", want: newer},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, p := range []Phase{{Name: "preflight", Run: checkCloudConfig}, cloudConfig()} {
				_, err := init(tc.run, tc.document, p)
				wantError(t, err, tc.wantErr, finding.ExitRefused)
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
	if out, err := init(run{config: initConfig}, "", controlPlane()); err != nil || machinetest.Content(m, machine.CCMManifest) == "" {
		t.Errorf("%v\n%s", err, out)
	}
}
