// Package requests asks an API server whether it would serve the requests that a cluster of kubeadm depends on: what each component may
// do, whether admission accepts the writes without which nothing starts or stays, and which extensions of the API do not answer. It
// finds what is wrong also where no component has noticed it yet, and where no log tells.
//
// Start at [Denied], [Refused] and [Extensions], which ask, and at [Judge]; [Permissions] is the table of who needs what.
//
// Reads: SubjectAccessReviews, the bindings of what is denied, APIServices.
// Writes: nothing. Writes are asked for as dry runs, which admission judges and etcd does not store.
// Running it twice: asks again.
// It will not: judge what could not be asked.
package requests

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/redact"
)

// Seen is what the API server would not serve.
type Seen struct {
	Denied      []Denial      `json:"denied,omitempty"`
	Refused     []Refusal     `json:"refused,omitempty"`
	Unavailable []Unavailable `json:"unavailable,omitempty"`
}

// Denial is a permission that a component lacks, and what of RBAC should grant it.
type Denial struct {
	Component string `json:"component"`
	User      string `json:"user"`
	// Permission is VERB RESOURCE, as in a rule.
	Permission string `json:"permission"`
	// Binding is KIND/NAME or KIND/NAMESPACE/NAME of what should grant it; Bound says that it exists.
	Binding string `json:"binding"`
	Bound   bool   `json:"bound,omitempty"`
	Without string `json:"without"`
}

// Refusal is a write that admission does not accept.
type Refusal struct {
	// Write says which, as "pod of DaemonSet kube-proxy in kube-system".
	Write string `json:"write"`
	// Message is the API server's.
	Message string `json:"message"`
}

// Unavailable is an APIService that a Service serves, and that does not answer.
type Unavailable struct {
	Name    string `json:"name"`
	Service string `json:"service"`
	Message string `json:"message"`
}

// settling is how long an extension may be away until that is a finding: its pods may be replaced.
const settling = time.Minute

// atOnce is how many questions are asked at the same time.
const atOnce = 4

// Cluster is what the questions are about.
type Cluster struct {
	// Minor is the API server's minor version, as 37.
	Minor int
	// Node is one of the cluster, on which writes are tried. Empty: none are.
	Node string
	// RunsAs tells whether a workload of kube-system has the ServiceAccount of its name, as kubeadm makes it.
	RunsAs func(workload string) bool
	// Proxy is a pod as the DaemonSet of kube-proxy makes it. Nil: there is none, and no pod is asked for.
	Proxy *corev1.Pod
	// patience is that of tests. 0: the usual.
	patience time.Duration
}

// Denied asks what components may do. The error says that the API server could not be asked.
func Denied(ctx context.Context, client kubernetes.Interface, cluster Cluster) ([]Denial, error) {
	grants := Permissions()
	var asked []Denial
	var of []int // the grant of each
	for i := range grants {
		g := &grants[i]
		if g.Workload != "" && !cluster.RunsAs(g.Workload) || !g.in(cluster.Minor) {
			continue
		}
		for _, permission := range g.Permissions {
			asked = append(asked, Denial{
				Component: g.Component, User: g.user(), Permission: permission, Binding: g.binding(), Without: g.Without,
			})
			of = append(of, i)
		}
	}
	allowed, err := cluster.reviews(ctx, client, asked, func(i int) []string { return grants[of[i]].groups() })
	if err != nil {
		return nil, err
	}
	var list []Denial
	bindings := map[string]bool{}
	for i := range asked {
		if allowed[i] {
			continue
		}
		bound, known := bindings[asked[i].Binding]
		if !known {
			var err error
			if bound, err = Bound(ctx, client, asked[i].Binding); err != nil {
				return nil, err
			}
			bindings[asked[i].Binding] = bound
		}
		if asked[i].Bound = bound; grants[of[i]].Optional && !bound {
			continue
		}
		list = append(list, asked[i])
	}
	return list, nil
}

// reviews asks for each permission whether it is allowed, as a member of groups. Webhooks are asked about reviews as well, up to Kubernetes
// 1.36: one that hangs would take all the time that there is, so the first review that takes too long is the last.
func (c *Cluster) reviews(ctx context.Context, client kubernetes.Interface, asked []Denial, groups func(int) []string) ([]bool, error) {
	allowed, errs := make([]bool, len(asked)), make([]error, len(asked))
	asking, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	each(len(asked), func(i int) {
		if asking.Err() != nil {
			return
		}
		ctx, cancel := context.WithTimeout(asking, cmp.Or(c.patience, patience))
		defer cancel()
		review, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User: asked[i].User, Groups: groups(i), ResourceAttributes: parse(asked[i].Permission),
			},
		}, metav1.CreateOptions{})
		if errs[i] = err; err == nil {
			allowed[i] = review.Status.Allowed
		} else if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			stop(fmt.Errorf("review what %s is allowed to do: %w", asked[i].Component, context.DeadlineExceeded))
		}
	})
	if asking.Err() != nil {
		return nil, context.Cause(asking)
	}
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return allowed, nil
}

// each runs a function for each number below n, a few at a time.
func each(n int, do func(int)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			do(i)
			<-slots
		})
	}
	wg.Wait()
}

// Extensions lists APIServices that are served in the cluster and are not available, as the API server says.
func Extensions(ctx context.Context, client kubernetes.Interface) ([]Unavailable, error) {
	data, err := client.Discovery().RESTClient().Get().AbsPath("/apis/apiregistration.k8s.io/v1/apiservices").SetHeader("Accept", "application/json").DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all struct {
		Items []struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
			Spec struct {
				Service *struct {
					Namespace string `json:"namespace"`
					Name      string `json:"name"`
				} `json:"service"`
			} `json:"spec"`
			Status struct {
				Conditions []metav1.Condition `json:"conditions"`
			} `json:"status"`
		} `json:"items"`
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("read the list of APIServices: %w", err)
	}
	var list []Unavailable
	for _, item := range all.Items {
		for _, c := range item.Status.Conditions {
			lasts := time.Since(c.LastTransitionTime.Time) > settling
			if item.Spec.Service != nil && c.Type == "Available" && c.Status == metav1.ConditionFalse && lasts {
				list = append(list, Unavailable{
					Name: item.Metadata.Name, Service: item.Spec.Service.Namespace + "/" + item.Spec.Service.Name, Message: finding.Clean(redact.Text(c.Reason + ": " + c.Message)),
				})
			}
		}
	}
	return list, nil
}
