package phases

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/bootstrap"
	"github.com/ccmadm/ccmadm/phases/existingtest"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// The run in which kubeadm has uploaded certificates prints the whole command of control planes; a phase in a process of its own
// does not know the key, and says how to get one.
func TestCluster_ShowJoinCommand_ControlPlanes(t *testing.T) {
	const key = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	m := existingtest.LivingAs(t, scheduledOnprem())
	machinetest.Put(t, m, machine.PKIDir+"/ca.crt", string(phasestest.Cluster.Config.CAData))
	machinetest.Put(t, m, machine.StateFile, phasestest.StateAt(state.StageControlPlane))
	m.Runner.(*machinetest.Commands).Answers["kubeadm init --config="] = "[upload-certs] Using certificate key:\n" + key + "\n"
	client := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config).CoreV1()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-abcdef"}, Type: "bootstrap.kubernetes.io/token",
		StringData: map[string]string{
			"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true",
			"auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
		},
	}
	live := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: workflow.KubeadmConfigName},
		Data: map[string]string{
			workflow.ClusterConfigKey: "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\ncontrolPlaneEndpoint: 192.0.2.10:6443\n",
		},
	}
	_, noSecret := client.Secrets("kube-system").Create(t.Context(), secret, metav1.CreateOptions{})
	_, noMap := client.ConfigMaps("kube-system").Create(t.Context(), live, metav1.CreateOptions{})
	if err := errors.Join(noSecret, noMap); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		err := client.Secrets("kube-system").Delete(ctx, secret.Name, metav1.DeleteOptions{})
		if err := errors.Join(err, client.ConfigMaps("kube-system").Delete(ctx, live.Name, metav1.DeleteOptions{})); err != nil {
			t.Error(err)
		}
	})
	inputs := workflow.Inputs{Request: workflow.Request{Flags: scheduledOnprem()}}
	r, out := phasestest.Run{Config: phasestest.InitConfig, Inputs: inputs, Args: []string{"--upload-certs"}}.Must(t, m)
	if err := r.Do(t.Context(), []workflow.Phase{bootstrap.KubeadmFinish(), bootstrap.ShowJoinCommand()}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, after, _ := strings.Cut(out.String(), "Further control planes join with:\n\n")
	controlPlanes, workers, _ := strings.Cut(after, "Workers join with:\n\n")
	if !strings.Contains(controlPlanes, " --token abcdef.0123456789abcdef ") || !strings.Contains(controlPlanes, " --control-plane --certificate-key "+key+"\n") ||
		!strings.HasPrefix(workers, "  ccmadm join ") || strings.Contains(workers, key) {
		t.Errorf("got\n%s", out)
	}
	alone, err := phasestest.Run{Config: phasestest.InitConfig, Inputs: inputs}.Do(t, m, bootstrap.ShowJoinCommand())
	if err != nil || strings.Contains(alone, key) || !strings.Contains(alone, "kubeadm init phase upload-certs --upload-certs") {
		t.Errorf("alone: %v\n%s", err, alone)
	}
	quiet, err := phasestest.Run{Config: phasestest.InitConfig, Inputs: inputs, Args: []string{"--skip-token-print"}}.Do(t, m, bootstrap.ShowJoinCommand())
	if err != nil || strings.Contains(quiet, "0123456789abcdef") || !strings.Contains(quiet, "--token <value withheld> --discovery") {
		t.Errorf("with --skip-token-print: %v\n%s", err, quiet)
	}
	for path, text := range phasestest.Snapshot(t, m) {
		if strings.Contains(text, key) {
			t.Errorf("%s has the key, which nothing may keep", path)
		}
	}
}
