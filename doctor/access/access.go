// Package access asks what a user may do, so that commands that make objects refuse before they have made any.
//
// Start at [Denied].
//
// Reads: the API server's answer about the user of the client. Writes: nothing.
// Running it twice: asks again.
// It will not: tell whether an admission policy or webhook forbids what RBAC allows.
package access

import (
	"context"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Denied returns what the user may not do, as "VERB RESOURCE" or "VERB RESOURCE/SUBRESOURCE"; empty: it is allowed. The error says that
// the API server could not be asked.
func Denied(ctx context.Context, client kubernetes.Interface, a authorizationv1.ResourceAttributes) (string, error) {
	question := &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &a},
	}
	review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, question, metav1.CreateOptions{})
	if err != nil || review.Status.Allowed {
		return "", err
	}
	return strings.TrimSuffix(a.Verb+" "+a.Resource+"/"+a.Subresource, "/"), nil
}
