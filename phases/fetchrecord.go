package phases

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/kubeadm"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func fetchRecord() Phase {
	return Phase{
		Name:  "record",
		Short: "Read the cluster's settings",
		Long: `Reads, with the bootstrap token, the ConfigMap kube-system/` + v1alpha1.RecordName + ` that ` + "`ccmadm init`" + ` has published, and
whether the cluster has a node of this machine's name. Refuses flags that contradict the record. Writes ` + RecordFile + `.`,
		Run: func(ctx context.Context, d *Data) error {
			client, err := kubeadm.Discover(ctx, d.Kubeadm)
			if err != nil {
				return err
			}
			if err := d.refuseTakenName(ctx, client); err != nil {
				return err
			}
			rec, err := d.recordOf(ctx, client)
			if err != nil {
				return err
			}
			if err := d.contradiction(rec); err != nil {
				return err
			}
			d.Sayf("cluster %s: provider %s, mode %s", rec.Configuration.ClusterName, rec.Configuration.Provider, rec.Configuration.Mode)
			data, err := rec.Encode()
			if err != nil {
				return err
			}
			return d.write(File{Path: RecordFile, Data: data, Mode: 0o600})
		},
	}
}

// discoverRecord reads the record without writing it down.
func (d *Data) discoverRecord(ctx context.Context) (*v1alpha1.Record, error) {
	client, err := kubeadm.Discover(ctx, d.Kubeadm)
	if err != nil {
		return nil, err
	}
	return d.recordOf(ctx, client)
}

func (d *Data) recordOf(ctx context.Context, client kubernetes.Interface) (*v1alpha1.Record, error) {
	name := "ConfigMap/kube-system/" + v1alpha1.RecordName
	cm, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, v1alpha1.RecordName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, finding.Preflightf("read %s: %w", name, err).
			WithHint("was this cluster made by `ccmadm init`? On its control plane, `ccmadm init phase record` publishes the settings")
	}
	if apierrors.IsUnauthorized(err) {
		return nil, finding.Preflightf("read %s: the API server refuses the token", name).
			WithHint("on a control plane: kubeadm token create")
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return v1alpha1.DecodeRecord(name, []byte(cm.Data[v1alpha1.RecordKey]))
}

// refuseTakenName finds a second machine with one name before it takes the first one's place in the cluster.
// kubeadm looks only for ready nodes, and without a CNI plugin none is.
// Bootstrap tokens may read Nodes for exactly this check (ClusterRole kubeadm:get-nodes).
func (d *Data) refuseTakenName(ctx context.Context, client kubernetes.Interface) error {
	if d.joined(ctx) {
		return nil
	}
	name, err := d.nodeName()
	if err != nil {
		return err
	}
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for Node/%s: %w", name, err)
	}
	other := node.Status.NodeInfo.MachineID
	if d.ignores("NodeName") || (!nodeReady(node) && other == machineID()) {
		d.Sayf("Node/%s is there already: this machine takes it over", name)
		return nil
	}
	return finding.Preflightf("join as %q: NodeName: the cluster has a node of that name, machine %s", name, other).
		WithHint("give this machine another host name, or --node-name; if the other machine is gone, `kubectl delete node %s` or --ignore-preflight-errors=NodeName", name)
}

// machineID is what the kubelet reports as status.nodeInfo.machineID.
func machineID() string {
	data, err := os.ReadFile("/etc/machine-id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

func nodeReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// contradiction compares what the user said for this machine with what holds in the cluster. The node IP is the
// machine's own affair.
func (d *Data) contradiction(rec *v1alpha1.Record) error {
	said := d.Flags
	if d.cloud != nil {
		said = *d.cloud
		said.Override(&d.Flags)
	}
	if said.Profile != "" {
		data, err := os.ReadFile(said.Profile)
		if err != nil {
			return finding.Usagef("read profile: %w", err)
		}
		if string(data) != rec.Profile {
			return finding.Refusedf("join with %s: it is not the profile of the cluster's record, whose provider is %s", said.Profile, rec.Configuration.Provider).
				WithHint("leave it out: joining machines take it from the record")
		}
	}
	known := rec.Configuration
	for _, c := range []struct{ field, said, known string }{
		{"provider", said.Provider, known.Provider},
		{"clusterName", said.ClusterName, known.ClusterName},
		{"mode", auto(string(said.Mode)), string(known.Mode)},
		{"controllerManager.image", said.ControllerManager.Image, known.ControllerManager.Image},
		{"controllerManager.version", said.ControllerManager.Version, known.ControllerManager.Version},
	} {
		if c.said != "" && c.said != c.known {
			return finding.Refusedf("join with %s %q: the cluster's record says %q", c.field, c.said, c.known).
				WithHint("leave it out: joining machines take it from the record")
		}
	}
	return nil
}

func auto(mode string) string {
	if mode == string(v1alpha1.ModeAuto) {
		return ""
	}
	return mode
}
