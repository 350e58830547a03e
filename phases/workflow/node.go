package workflow

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	nodeutil "k8s.io/component-helpers/node/util"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/journal"
)

// IsInitialized tells whether a Node has a provider ID, and no uninitialized taint.
func IsInitialized(n *corev1.Node) bool { return n.Spec.ProviderID != "" && !nodes.IsTainted(n) }

// HasJoined tells whether this machine is a node of the cluster: what it has written down, else its Node, which its own
// certificate may ask for. An API server that does not answer is an error, not a no.
func HasJoined(ctx context.Context, h *Host) (bool, error) {
	there, err := h.Machine.Exists(machine.KubeletConf)
	if err != nil || !there {
		return false, err
	}
	s, err := MachineState(h.Env)
	if err != nil || s.Stage == state.StageFinished {
		return err == nil, err
	}
	name, err := NodeName(h)
	if err != nil {
		return false, err
	}
	client, err := Connect(h.Env, machine.KubeletConf)
	if err != nil {
		return false, nil //nolint:nilerr // kubeadm writes it before the kubelet's certificate: that run was cut short
	}
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) {
		if done, failed := KubeadmFinished(h); failed != nil || done { // by a version of ccmadm that kept no state
			return false, cmp.Or(failed, error(finding.Refusedf("ask for Node/%s: %w", name, err).
				WithHint("this machine has joined before, and kubeadm is not run over it: restart its kubelet, or `ccmadm reset` and join again")))
		}
		return false, nil // not registered yet, or with an identity that this cluster does not know
	}
	if err != nil {
		return false, finding.Errorf("ask for Node/%s: %w", name, err).
			WithHint("whether this machine has joined cannot be told before the API server answers; nothing was changed")
	}
	marked := nodes.IsControlPlane(node)
	return marked || !h.KubeadmFile.JoinsControlPlane(), nil
}

// NodeName follows kubeadm: a hostname-override among the kubelet's arguments, the configured name, the host name.
func NodeName(h *Host) (string, error) {
	configured := h.KubeadmFile.NodeName(h.Role)
	if configured == "" {
		s, err := MachineState(h.Env)
		if err != nil {
			return "", err
		}
		configured = s.NodeName // that of an earlier run, whose flags this one may not have
		if configured == "" && h.Existing {
			configured = NodeOfKubelet(h.Machine)
		}
	}
	name, err := nodeutil.GetHostname(configured)
	if err != nil {
		return "", fmt.Errorf("choose the node's name: %w", err)
	}
	return name, nil
}

// IsControlPlane tells whether this machine is a control plane, or joins as one.
func IsControlPlane(h *Host) bool {
	return h.Role == kubeadm.RoleInit || h.KubeadmFile.JoinsControlPlane()
}

// AskNode returns a Node; an API server that does not answer is asked again.
func AskNode(ctx context.Context, client kubernetes.Interface, name string) (node *corev1.Node, err error) {
	err = journal.Ask(ctx, func(ctx context.Context) (err error) {
		node, err = client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return err
	})
	return node, err
}

// AskNodes returns all Nodes; an API server that does not answer is asked again.
func AskNodes(ctx context.Context, client kubernetes.Interface) (list *corev1.NodeList, err error) {
	err = journal.Ask(ctx, func(ctx context.Context) (err error) {
		list, err = client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		return err
	})
	return list, err
}

// AnnotateNode notes something on a Node; an empty value takes the note back.
func AnnotateNode(ctx context.Context, client kubernetes.Interface, name, annotation, value string) error {
	var note any // null removes it
	if value != "" {
		note = value
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotation: note}}})
	if err != nil {
		return err
	}
	return journal.Ask(ctx, func(ctx context.Context) error {
		_, err := client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch,
			metav1.PatchOptions{FieldManager: v1alpha1.FieldManager})
		return err
	})
}
