package main

import (
	"context"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/templates"
)

// kubeconfigFile is that of a user.
func kubeconfigFile(t *testing.T, user string) string {
	t.Helper()
	kubeconfig, err := plane.Kubeconfig(user)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const approverUser = "system:serviceaccount:kube-system:ccmadm-serving-certificates"

// Beside a vendor's manager, whose part the administrator plays, nothing counts that a kubelet can have written.
func TestCluster_ServingCertificatesBesideAVendor(t *testing.T) {
	const settle = 6 * time.Second // within which a busy machine, too, judges a request
	onlyRegisters(t, "v1", "198.18.2.66")
	kubelet, admin := kubeletOf(t, "v1"), client(t, plane.Config).CoreV1().Nodes()
	permitted(t, "aws", templates.DaemonSet)
	p := startWith(t, "approve-serving-certificates", "--kubeconfig="+kubeconfigFile(t, approverUser), "--settle="+settle.String(), "--serving-certificate-ranges=198.18.2.0/24",
		"--serving-certificate-names=*.nodes.example", fmt.Sprintf("--bind-address=127.0.0.1:%d", freePort(t)))
	csr := asks(t, kubelet, "v1", "198.18.2.66", nil)
	staysPending(t, csr, "NotInitialized")
	if _, err := admin.Patch(t.Context(), "v1", "application/merge-patch+json",
		[]byte(`{"spec":{"taints":null,"providerID":"aws:///a/i-1"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	staysPending(t, csr, "NotSettled") // what it registered with may be anybody's address
	policyHoldsFor(t, kubelet, "v1")
	addresses := []byte(`{"status":{"addresses":[{"type":"InternalIP","address":"198.18.2.5"},{"type":"InternalDNS","address":"v1.ec2"},{"type":"InternalDNS","address":"v1.nodes.example"},{"type":"ExternalIP","address":"198.18.3.5"},` +
		`{"type":"Hostname","address":"198.18.2.77"}]}}`)
	if _, err := admin.PatchStatus(t.Context(), "v1", addresses); err != nil {
		t.Fatal(err)
	}
	becomesApproved(t, asks(t, kubelet, "v1", "198.18.2.5", func(r *x509.CertificateRequest, _ *certificatesv1.CertificateSigningRequestSpec) {
		r.DNSNames = append(r.DNSNames, "v1.nodes.example")
	}))
	staysPending(t, asks(t, kubelet, "v1", "198.18.2.5", func(r *x509.CertificateRequest, _ *certificatesv1.CertificateSigningRequestSpec) {
		r.DNSNames = []string{"v1.ec2"}
	}), "NameNotOfNode")
	staysPending(t, asks(t, kubelet, "v1", "198.18.3.5", nil), "AddressNotProven")  // of no range
	staysPending(t, asks(t, kubelet, "v1", "198.18.2.77", nil), "AddressNotOfNode") // a kubelet registers with such entries
	time.Sleep(settle)
	staysPending(t, asks(t, kubelet, "v1", "198.18.2.66", nil), "AddressNotOfNode")

	letBy(t, true)
	staysPending(t, asks(t, kubelet, "v1", "198.18.2.5", nil), "NoPolicy")
	letBy(t, false)
	csr = asks(t, kubelet, "v1", "198.18.2.5", nil)
	staysPending(t, csr, "NotSettled") // addresses may be of the time between
	becomesApproved(t, csr)

	policies := client(t, plane.Config).AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	if err := policies.Delete(t.Context(), config.KubeletPolicyName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	staysPending(t, asks(t, kubelet, "v1", "198.18.2.5", nil), "NoPolicy")
	if code := p.stop(); code != 0 { // a watch is in the audit log once it has ended
		t.Errorf("got exit code %d, want 0", code)
	}
	compareWithRole(t, approverUser, "ccmadm:serving-certificates")
}

// letBy has the policy look away where it cannot be evaluated, or look again.
func letBy(t *testing.T, ignore bool) {
	t.Helper()
	policies := client(t, plane.Config).AdmissionregistrationV1().ValidatingAdmissionPolicies()
	policy, err := policies.Get(t.Context(), config.KubeletPolicyName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if policy.Spec.FailurePolicy = new(admissionv1.Fail); ignore {
		policy.Spec.FailurePolicy = new(admissionv1.Ignore)
	}
	if _, err := policies.Update(t.Context(), policy, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func policyHoldsFor(t *testing.T, kubelet *kubernetes.Clientset, node string) {
	t.Helper()
	tries := 0
	eventually(t, "the policy holds", func(ctx context.Context) error {
		tries++ // one that is the same changes nothing, and is let by
		patch := fmt.Appendf(nil, `{"status":{"addresses":[{"type":"InternalIP","address":"198.18.7.%d"}]}}`, tries)
		if _, err := kubelet.CoreV1().Nodes().PatchStatus(ctx, node, patch); !apierrors.IsForbidden(err) {
			return fmt.Errorf("want it forbidden: %w", err)
		}
		return nil
	})
}

// compareWithRole finds what a user may do by a ClusterRole, and did not: a permission without a use.
func compareWithRole(t *testing.T, user, name string) {
	t.Helper()
	role, err := client(t, plane.Config).RbacV1().ClusterRoles().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	used := usedBy(t, user)
	for _, rule := range role.Rules {
		for _, verb := range rule.Verbs {
			for _, resource := range rule.Resources {
				permission := verb + " " + resource
				// Of signers the API server asks itself; informers list where it does not stream; an event has to repeat.
				if slices.Contains([]string{"approve signers", "list nodes", "list certificatesigningrequests", "patch events"}, permission) {
					continue
				}
				if !slices.Contains(used, permission) {
					t.Errorf("granted and never used: %s", permission)
				}
			}
		}
	}
}
