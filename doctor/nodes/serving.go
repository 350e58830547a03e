package nodes

import (
	"context"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
)

// maxRequesters are named in one line.
const maxRequesters = 3

// ServingCertificates says in one line what becomes of the serving certificates that kubelets ask for; empty where none
// is asked for, and nothing of ccmadm would approve it.
func ServingCertificates(ctx context.Context, client kubernetes.Interface) (string, error) {
	list, err := client.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{
		FieldSelector: "spec.signerName=" + certificatesv1.KubeletServingSignerName,
	})
	if err != nil {
		return "", fmt.Errorf("list CertificateSigningRequests: %w", err)
	}
	policies := client.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	_, err = policies.Get(ctx, config.KubeletPolicyName, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("get ValidatingAdmissionPolicy/%s: %w", config.KubeletPolicyName, err)
	}
	approves := err == nil
	var names, requesters []string
	for i := range list.Items {
		if csr := &list.Items[i]; Unanswered(csr) {
			names = append(names, csr.Name)
			requesters = append(requesters, finding.Clean(csr.Spec.Username))
		}
	}
	switch {
	case len(names) == 0 && approves:
		return "serving certificates: approved, none is pending", nil
	case len(names) == 0:
		return "", nil
	}
	why := "kubectl describe csr " + names[0] + " shows why"
	if !approves {
		why = "ccmadm does not approve them (servingCertificates.enabled)"
	}
	return fmt.Sprintf(
		"serving certificates: %s pending, for %s: %s",
		amount(len(names)),
		Some(slices.Compact(slices.Sorted(slices.Values(requesters))), maxRequesters),
		why,
	), nil
}

// Unanswered says that a request has neither a certificate, nor anybody's word about it.
func Unanswered(csr *certificatesv1.CertificateSigningRequest) bool {
	return len(csr.Status.Certificate) == 0 && len(csr.Status.Conditions) == 0
}

func amount(n int) string {
	if n == 1 {
		return "1 is"
	}
	return fmt.Sprintf("%d are", n)
}
