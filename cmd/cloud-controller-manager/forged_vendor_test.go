package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/templates"
)

// The names of EC2: by address, by resource, and public. impostor is called as a machine that is no Node.
const (
	byAddress  = "ip-198-18-2-5.eu-west-1.compute.internal"
	byResource = "i-0abc.eu-west-1.compute.internal"
	public     = "ec2-203-0-113-5.eu-west-1.compute.amazonaws.com"
	impostor   = "ip-198-18-2-9.eu-west-1.compute.internal"
	itself     = "ip-198-18-2-66.eu-west-1.compute.internal"
)

// Beside the manager of AWS, whose part the administrator plays, and whose Nodes have several names: nothing forged is approved
// and signed, and all that is honest is.
func TestCluster_ForgedCertificatesBesideAVendor(t *testing.T) {
	const settle = 2 * time.Second
	permitted(t, "aws", templates.DaemonSet)
	profile, err := templates.Load("aws")
	if err != nil {
		t.Fatal(err)
	}
	tr := newTrial(t)
	startWith(t, append([]string{
		"approve-serving-certificates", "--settle=" + settle.String(), "--kubeconfig=" + kubeconfigFile(t, approverUser),
		"--serving-certificate-ranges=198.18.2.0/24,198.18.5.0/24", fmt.Sprintf("--bind-address=127.0.0.1:%d", freePort(t)),
	}, profile.ServingNameArgs(templates.Values{})...)...)
	tr.gives(byAddress, "198.18.2.5", byAddress, public)
	tr.gives(byResource, "198.18.2.6", "ip-198-18-2-6.eu-west-1.compute.internal", byResource)
	tr.gives("w2", "198.18.2.2")
	tr.gives(impostor, "198.18.2.66", itself)
	tr.gives("mallory", "198.18.5.70")
	onlyRegisters(t, "waits", "198.18.5.51")
	tr.namesAreTheManagers("waits")
	list := append(asked(), tr.presented()...)
	for i := range list {
		evil := fmt.Sprintf("evil-%d", i/3)
		list[i].as, list[i].ip = evil, fmt.Sprintf("198.18.5.%d", 100+i/3)
		if i%3 == 0 {
			tr.gives(evil, list[i].ip)
		}
	}
	waiting := tr.ask(append(list, impostures()...)...)
	tr.honestAtAWS()
	tr.held(waiting)
	tr.floods("evil-0", "198.18.2.2", map[string]string{byAddress: "198.18.2.5", "w2": "198.18.2.2"})

	// Who claims an address, or is called as the cloud calls another Node, takes nothing from it.
	tr.claim(impostor, "198.18.2.5")
	onlyRegisters(t, public, "198.18.2.5")
	tr.forge(
		forgery{what: "an address that it claims by annotation", as: impostor, ip: "198.18.2.5", want: "NameNotOfNode"},
		forgery{what: "a name of another Node as its own", as: public, want: "NotInitialized"},
	)
	tr.honestAtAWS()
	tr.expect(70)
}

func (tr *trial) honestAtAWS() {
	tr.Helper()
	tr.serves(byAddress, "198.18.2.5", public)
	tr.serves(byResource, "198.18.2.6", "ip-198-18-2-6.eu-west-1.compute.internal")
	tr.serves("w2", "198.18.2.2")
}

// impostures are requests for what the cloud has not given to the Node.
func impostures() []forgery {
	named := func(what, as, ip, want string, names ...string) forgery {
		return forgery{what: what, as: as, ip: ip, want: want, change: func(r *req, _ *csrSpec) { r.DNSNames = names }}
	}
	return []forgery{
		{what: "a Node that waits", as: "waits", ip: "198.18.5.51", want: "NotInitialized|NotSettled"},
		{what: "the name of a machine that is no Node", as: impostor, ip: "198.18.2.66", want: "NameNotOfNode"},
		named("the public name of another Node", impostor, "198.18.2.66", "NameNotOfNode", itself, public),
		named("what it registered with", impostor, "198.18.5.50", "AddressNotOfNode", itself),
		named("the public name of no Node", "mallory", "", "NameNotOfNode", "ec2-203-0-113-9.eu-west-1.compute.amazonaws.com"),
		named("another Node's name", "mallory", "", "NameNotOfNode", byResource),
		named("an address outside of the ranges", byAddress, "203.0.113.5", "AddressNotProven", byAddress),
		{what: "a bootstrap token", node: byAddress, want: "WrongRequester"},
		{what: "a Node that does not exist", as: "ec2-203-0-113-9.eu-west-1.compute.amazonaws.com", want: "NoNode"},
	}
}

// gives has a kubelet register a Node with an address of its own choice, and the manager give it these.
func (tr *trial) gives(node, ip string, names ...string) {
	tr.Helper()
	onlyRegisters(tr.T, node, "198.18.5.50")
	tr.initializes(node)
	addresses := []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: ip},
		{Type: corev1.NodeExternalIP, Address: strings.Replace(ip, "198.18.2", "203.0.113", 1)},
		{Type: corev1.NodeHostName, Address: node},
	}
	for _, name := range names {
		kind := corev1.NodeInternalDNS
		if name == public {
			kind = corev1.NodeExternalDNS
		}
		addresses = append(addresses, corev1.NodeAddress{Type: kind, Address: name})
	}
	nodes := tr.admin.CoreV1().Nodes()
	eventually(tr.T, "the manager writes the addresses", func(ctx context.Context) error {
		now, err := nodes.Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		now.Status.Addresses = addresses // a patch would keep one of each type
		_, err = nodes.UpdateStatus(ctx, now, metav1.UpdateOptions{})
		return err
	})
}

func (tr *trial) initializes(node string) {
	tr.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"taints":null,"providerID":"aws:///eu-west-1a/%s"}}`, node)
	if _, err := tr.admin.CoreV1().Nodes().Patch(tr.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		tr.Fatal(err)
	}
}

// namesAreTheManagers tries to give a Node DNS names with the credentials of its kubelet, before it is initialized and as it
// registers: a manager may leave them as they are.
func (tr *trial) namesAreTheManagers(node string) {
	tr.Helper()
	tries := 0 // a name that the Node has already is let by
	eventually(tr.T, "the policy denies a kubelet to give its Node names", func(ctx context.Context) error {
		tries++
		patch := fmt.Appendf(nil, `{"status":{"addresses":[{"type":"ExternalDNS","address":"ec2-%d.compute.amazonaws.com"}]}}`, tries)
		if _, err := tr.kubelet(node).CoreV1().Nodes().PatchStatus(ctx, node, patch); !apierrors.IsForbidden(err) {
			return fmt.Errorf("want it forbidden: %w", err)
		}
		return nil
	})
	evil := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "named"}}
	evil.Spec.Taints = []corev1.Taint{{Key: v1alpha1.UninitializedTaint, Effect: corev1.TaintEffectNoSchedule}}
	evil.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalDNS, Address: byAddress}}
	if _, err := tr.kubelet("named").CoreV1().Nodes().Create(tr.Context(), evil, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		tr.Errorf("a Node registers with names: %v", err)
	}
	same := []byte(`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
	if _, err := tr.kubelet(byAddress).CoreV1().Nodes().PatchStatus(tr.Context(), byAddress, same); err != nil {
		tr.Errorf("a kubelet whose Node has names cannot report: %v", err)
	}
}
