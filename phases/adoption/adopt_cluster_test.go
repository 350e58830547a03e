package adoption

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/manifests/apply"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// plainKubeadm is kubeadm's own configuration of a cluster, with what was right when cloud providers were built in.
const plainKubeadm = `apiServer:
  extraArgs:
  - name: cloud-provider
    value: aws
apiVersion: kubeadm.k8s.io/v1beta4
clusterName: ber1
controllerManager: {}
kind: ClusterConfiguration
kubernetesVersion: v1.36.3
networking:
  podSubnet: 10.244.0.0/16
`

// plain is a cluster that kubeadm has made, with a control plane, which is the machine, and a worker.
func plain(t *testing.T) (*machine.Machine, kubernetes.Interface) {
	t.Helper()
	m, runner := phasestest.KubeletOf(t)
	runner.Answers["kubelet --version"] = "Kubernetes v1.36.3\n"
	machinetest.CopyCA(t, machinetest.NewCA(t), m.Path(machine.PKIDir))
	machinetest.Put(t, m, machine.AdminConf, phasestest.KubeconfigText(t, phasestest.Cluster.Config))
	client := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config)
	config := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: workflow.KubeadmConfigName, Namespace: metav1.NamespaceSystem},
		Data:       map[string]string{workflow.ClusterConfigKey: plainKubeadm},
	}
	phasestest.Made(t, client.CoreV1().ConfigMaps(metav1.NamespaceSystem), config)
	here, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	phasestest.AddNode(t, client, strings.ToLower(here), machinetest.Address, map[string]string{v1alpha1.ControlPlaneLabel: ""})
	phasestest.AddNode(t, client, "w1", "198.18.0.101", nil)
	t.Cleanup(func() {
		applier, err := apply.NewCluster(phasestest.Cluster.Config, true)
		if err == nil {
			_, err = applier.Remove(context.WithoutCancel(t.Context()))
		}
		if err != nil {
			t.Error(err)
		}
	})
	return m, client
}

// knowAll gives every Node a provider ID.
func knowAll(t *testing.T, client kubernetes.Interface, annotations map[string]string) {
	t.Helper()
	list, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		list.Items[i].Spec.ProviderID, list.Items[i].Annotations = "onprem://ber1/"+list.Items[i].Name, annotations
		if _, err := client.CoreV1().Nodes().Update(t.Context(), &list.Items[i], metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// adoption builds the data of a run.
func adoption(t *testing.T, m *machine.Machine, o workflow.Inputs, a Adoption) (*workflow.Run, *bytes.Buffer) {
	t.Helper()
	o.Existing, o.Operation = true, &a
	if !a.Leave && o.Flags.Provider == "" {
		o.Flags.Provider = "onprem"
	}
	r, out := phasestest.Run{Inputs: o}.Must(t, m)
	t.Cleanup(func() {
		if err := r.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return r, out
}

// obstacle is what stands against adoption.
type obstacle struct {
	name, want string
	options    workflow.Inputs
	happens    func(*testing.T)
}

// obstacles are what somebody else has in the cluster, or has not.
func obstacles(m *machine.Machine, client kubernetes.Interface) []obstacle {
	nodes := client.CoreV1().Nodes()
	pods := client.CoreV1().Pods("default")
	leases := client.CoordinationV1().Leases(metav1.NamespaceSystem)
	return []obstacle{
		{
			name: "another manager's pod", want: "another cloud-controller-manager is running: Pod/default/vendor",
			happens: func(t *testing.T) {
				phasestest.Made(t, pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "vendor"}, Spec: corev1.PodSpec{
					AutomountServiceAccountToken: new(false),
					Containers: []corev1.Container{{
						Name: "c", Image: "vendor/ccm:1",
						Args: []string{"--cloud-provider=aws"},
					}},
				}})
			},
		},
		{
			name: "a manager that leads", want: "else_1 renews Lease/kube-system/cloud-controller-manager",
			happens: func(t *testing.T) {
				phasestest.Made(t, leases, &coordinationv1.Lease{
					ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.LeaseName},
					Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("else_1")},
				})
				keepRenewing(t, client)
			},
		},
		{
			name: "a provider ID of another provider", want: "foreign: its provider ID aws:///i-1 is another provider's",
			happens: func(t *testing.T) {
				phasestest.AddNode(t, client, "foreign", "198.18.0.102", nil)
				node, err := nodes.Get(t.Context(), "foreign", metav1.GetOptions{})
				if err == nil {
					node.Spec.ProviderID = "aws:///i-1"
					_, err = nodes.Update(t.Context(), node, metav1.UpdateOptions{})
				}
				if err != nil {
					t.Fatal(err)
				}
			},
		},
		{
			name: "a node that is not Ready, and has no address", want: "dead: it is not Ready; it has no InternalIP to be kept",
			happens: func(t *testing.T) {
				phasestest.Made(t, nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "dead"}})
			},
		},
		{
			name: "this machine's flags in two places", want: "--node-ip is set in two places",
			happens: func(t *testing.T) {
				machinetest.Put(t, m, "/etc/default/kubelet", "A=--node-ip=198.18.0.11\nB=--node-ip=198.18.0.11\n")
				t.Cleanup(func() { machinetest.Put(t, m, "/etc/default/kubelet", "") })
			},
		},
		{
			name: "a webhook that nobody answers for", want: "webhook w.example.com of ValidatingWebhookConfiguration/w is asked " +
				"before nodes/status are written, fails closed, and its Service default/gone has no endpoint",
			happens: func(t *testing.T) {
				phasestest.Made(t, client.AdmissionregistrationV1().ValidatingWebhookConfigurations(), webhookOnNodes())
			},
		},
		{
			name: "a static pod", want: "adopt in mode StaticPod", happens: func(*testing.T) {},
			options: workflow.Inputs{Request: workflow.Request{Flags: config.CloudConfiguration{Mode: config.ModeStaticPod}}},
		},
	}
}

// webhookOnNodes is asked before a Node's status is created, which nobody ever does.
func webhookOnNodes() *admissionv1.ValidatingWebhookConfiguration {
	return &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "w"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "w.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionv1.SideEffectClassNone),
			ClientConfig: admissionv1.WebhookClientConfig{
				Service: &admissionv1.ServiceReference{Namespace: "default", Name: "gone"},
			},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule: admissionv1.Rule{
					APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"nodes/status"},
				},
			}},
		}},
	}
}

// A kubelet writes its Node's addresses and version as it likes. They go on command lines and terminals of others.
func TestCluster_Adopt_HostileKubelet(t *testing.T) {
	m, client := plain(t)
	node, err := client.CoreV1().Nodes().Get(t.Context(), "w1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Status.Addresses = append(node.Status.Addresses,
		corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "fe80::1%$(reboot)\n;reboot"})
	node.Status.NodeInfo.KubeletVersion = "v1.36.3\x1b[2J\nw2"
	if _, err := client.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err) // the API server takes it
	}
	r, out := adoption(t, m, workflow.Inputs{DryRun: true}, Adoption{})
	if err := adoptPreflight().Do(t.Context(), r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	plan, err := adoptionOf(r).plannedNodes(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if ip := plan[0].IP; plan[0].Name != "w1" || ip != "198.18.0.101" {
		t.Errorf("address of %s is %q", plan[0].Name, ip)
	}
	if strings.Contains(out.String(), "\x1b") || strings.Contains(out.String(), "\nw2") {
		t.Errorf("the plan is forged: %q", out)
	}
}

// A join that was cut short has a step of kubeadm's left, which marks the Node.
func TestCluster_Adopt_CutJoin(t *testing.T) {
	m, client := plain(t)
	phasestest.AddNode(t, client, "cp2", "198.18.0.102", map[string]string{v1alpha1.ControlPlaneLabel: ""})
	for name, tt := range map[string]struct {
		node, stage string
		refused     bool
	}{
		"its Node is not marked": {"w1", "Begun", true},
		"it has no Node":         {"cp9", "Begun", true},
		"its Node is marked":     {"cp2", "Begun", false},
		"it has come to its end": {"w1", "Finished", false},
	} {
		t.Run(name, func(t *testing.T) {
			machinetest.Put(t, m, machine.StateFile, "apiVersion: ccmadm.dev/v1alpha1\nkind: LocalState\nrole: join\nnodeName: "+tt.node+
				"\nstage: "+tt.stage+"\n")
			r, out := adoption(t, m, workflow.Inputs{DryRun: true}, Adoption{})
			err := adoptPreflight().Do(t.Context(), r)
			if is := err != nil && strings.Contains(err.Error(), "Node/"+tt.node+" is not marked as a control plane"); is != tt.refused {
				t.Errorf("refused %t: %v\n%s", is, err, out)
			}
			if err != nil && !tt.refused {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func TestCluster_Adopt_Refused(t *testing.T) {
	m, client := plain(t)
	for _, tt := range obstacles(m, client) {
		t.Run(tt.name, func(t *testing.T) {
			tt.happens(t)
			r, out := adoption(t, m, tt.options, Adoption{Yes: true})
			err := adoptPreflight().Do(t.Context(), r)
			phasestest.WantError(t, err, tt.want, finding.ExitRefused)
			if t.Failed() {
				t.Log(out)
			}
		})
	}
	t.Run("a pod of ours that has not ended yet", func(t *testing.T) {
		phasestest.Made(t, client.CoreV1().Pods("kube-system"), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "onprem-cloud-controller-manager-x", Labels: map[string]string{
				v1alpha1.ManagedByLabel: v1alpha1.FieldManager, v1alpha1.NameLabel: "onprem-cloud-controller-manager",
			}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "c", Image: "onprem/cloud-controller-manager:1", Args: []string{"--cloud-provider=onprem"},
			}}},
		})
		r, out := adoption(t, m, workflow.Inputs{DryRun: true}, Adoption{})
		if err := adoptPreflight().Do(t.Context(), r); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("nobody says yes", func(t *testing.T) {
		r, out := adoption(t, m, workflow.Inputs{}, Adoption{})
		phasestest.WantError(t, adoptPreflight().Do(t.Context(), r), "it was not confirmed", finding.ExitRefused)
		if !strings.Contains(out.String(), "[y/N]") || !strings.Contains(out.String(), "kubelet, initialize") {
			t.Errorf("the plan, and the question:\n%s", out)
		}
	})
}

// Nobody may delete a Node before every node is known to the provider; the record says so, too.
func TestCluster_Adopt_Lifecycle(t *testing.T) {
	m, client := plain(t)
	external := map[string]string{v1alpha1.ProvidedNodeIPAnnotation: "x"}
	may := func() bool { // the provider's permission comes with an inventory, and here is none
		args := phasestest.ArgsOf(t, client.AppsV1().DaemonSets("kube-system").Get, "onprem-cloud-controller-manager")
		return !strings.Contains(strings.Join(args, " "), "-cloud-node-lifecycle-controller")
	}
	steps := []workflow.Phase{held(manager.RBAC()), held(manager.Addon()), resolved(manager.RBAC()), resolved(manager.Addon()), resolved(manager.Record())}
	pass := func() *state.Record {
		r, out := adoption(t, m, workflow.Inputs{}, Adoption{Yes: true})
		for i, p := range steps {
			if err := p.Do(t.Context(), r); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if i == 1 && may() {
				t.Fatal("a Node may be deleted before any is initialized")
			}
		}
		rec, err := workflow.ReadRecord(t.Context(), client)
		if err != nil {
			t.Fatal(err)
		}
		return rec
	}
	if rec := pass(); may() || rec.Configuration.Lifecycle != config.LifecycleOff ||
		rec.Configuration.Mode != config.ModeDaemonSet {
		t.Errorf("with nodes that are not known: delete %v, record %+v", may(), rec.Configuration)
	}
	knowAll(t, client, external)
	rec := pass()
	if !may() || rec.Configuration.Lifecycle != config.LifecycleGuarded || rec.PodSubnet != "10.244.0.0/16" ||
		rec.Configuration.ClusterName != "ber1" {
		t.Errorf("with all nodes known: delete %v, pods %q, %+v", may(), rec.PodSubnet, rec.Configuration)
	}
	other := workflow.Inputs{Request: workflow.Request{Flags: config.CloudConfiguration{Mode: config.ModeDeployment}}}
	second, _ := adoption(t, m, other, Adoption{Yes: true})
	phasestest.WantError(t, adoptPreflight().Do(t.Context(), second), "the cluster's record says DaemonSet", finding.ExitRefused)

	// The way back takes the permission away first, and leaves nothing in the end but what adopt did not bring.
	r, out := adoption(t, m, workflow.Inputs{}, Adoption{Leave: true, Yes: true})
	for _, p := range []workflow.Phase{leavePreflight(), off(manager.RBAC()), off(manager.Addon()), forgetMachine()} {
		if err := p.Do(t.Context(), r); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	if may() {
		t.Error("a Node may be deleted while the cluster leaves")
	}
	knowAll(t, client, nil) // their kubelets have left
	if err := removeObjects().Do(t.Context(), r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for what, get := range map[string]func() error{
		"record": func() error { _, err := workflow.ReadRecord(t.Context(), client); return err },
		"manager": func() error {
			_, err := client.AppsV1().DaemonSets("kube-system").Get(t.Context(), "onprem-cloud-controller-manager",
				metav1.GetOptions{})
			return err
		},
	} {
		if err := get(); !apierrors.IsNotFound(err) {
			t.Errorf("%s is left: %v", what, err)
		}
	}
	if machinetest.Content(m, machine.RecordFile) != "" {
		t.Error("the machine's copy of the record is left")
	}
}

func TestCluster_Adopt_KubeadmConfig(t *testing.T) {
	m, client := plain(t)
	r, out := adoption(t, m, workflow.Inputs{}, Adoption{Yes: true})
	if err := cleanKubeadm().Do(t.Context(), r); err != nil ||
		!strings.Contains(out.String(), "removed apiServer.extraArgs cloud-provider") {
		t.Fatalf("%v\n%s", err, out)
	}
	live, err := client.CoreV1().ConfigMaps("kube-system").Get(t.Context(), workflow.KubeadmConfigName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := live.Data[workflow.ClusterConfigKey]; strings.Contains(got, "cloud-provider") ||
		!strings.Contains(got, "clusterName: ber1") {
		t.Errorf("it is now\n%s", got)
	}
	if _, err := kubeadm.Parse("", []byte(live.Data[workflow.ClusterConfigKey])); err != nil {
		t.Error(err)
	}
	out.Reset()
	if err := cleanKubeadm().Do(t.Context(), r); err != nil || !strings.Contains(out.String(), "unchanged") {
		t.Errorf("the second time: %v\n%s", err, out)
	}
}
