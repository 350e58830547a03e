package nodes

import (
	"context"
	"slices"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Review is one question to the API server about the manager, and its answer. What cannot be asked is no no.
type Review struct {
	User   string                             `json:"user"`
	Groups []string                           `json:"groups,omitempty"`
	Asked  authorizationv1.ResourceAttributes `json:"asked"`
	// Answer is yes, no or unknown.
	Answer string `json:"answer"`
}

// The answers.
const (
	yes     = "yes"
	no      = "no"
	unknown = "unknown"
)

func (r Review) permission() permission {
	a := r.Asked
	return permission{a.Verb, a.Group, a.Resource, a.Subresource, a.Namespace, a.Name}
}

// questions are what to ask about the manager: what every one needs, and what its log says was refused.
func (e *evidence) questions() []Review {
	var list []Review
	known := false
	for i := range e.pods {
		who, ok := userOf(&e.pods[i])
		if !ok || known {
			continue
		}
		known = true // the pods of one manager have one identity
		for _, p := range append(needed(&e.leader), e.besides...) {
			list = append(list, question(who, p))
		}
	}
	for _, r := range refusedInLog(e.allLines()) {
		if r.who.name == "" && known {
			r.who = user{list[0].User, list[0].Groups}
		}
		asked := func(q Review) bool { return q.permission() == r.permission && q.User == r.who.name }
		if r.who.name != "" && !slices.ContainsFunc(list, asked) {
			list = append(list, question(r.who, r.permission))
		}
	}
	return list
}

func question(who user, p permission) Review {
	return Review{User: who.name, Groups: who.groups, Asked: authorizationv1.ResourceAttributes{
		Verb: p.verb, Group: p.group, Resource: p.resource, Subresource: p.subresource, Namespace: p.namespace, Name: p.name,
	}}
}

// review asks them all.
func (e *evidence) review(ctx context.Context, c kubernetes.Interface) []Review {
	list := e.questions()
	var wg sync.WaitGroup
	for i := range list {
		wg.Go(func() { list[i].Answer = ask(ctx, c, list[i]) })
	}
	wg.Wait()
	return list
}

// deniedBy returns what the API server says that the manager may not do, those first that a node waits for. Where it
// cannot be asked, what the log says that it refused.
func (e *evidence) deniedBy(reviews []Review) []permission {
	denied := slices.DeleteFunc(answeredNo(reviews, &e.leader), func(p permission) bool { return slices.Contains(e.besides, p) })
	if len(denied) > 0 || slices.ContainsFunc(reviews, func(r Review) bool { return r.Answer == yes }) {
		return denied
	}
	for _, r := range refusedInLog(e.allLines()) {
		denied = append(denied, r.permission)
	}
	return denied
}

// answeredNo is what the API server says that the manager may not do, and it would.
func answeredNo(reviews []Review, leader *leadership) []permission {
	var list []permission
	for _, r := range reviews {
		if r.Answer == no && leader.asks(r.permission()) {
			list = append(list, r.permission())
		}
	}
	return list
}

// ask is a SubjectAccessReview.
func ask(ctx context.Context, c kubernetes.Interface, r Review) string {
	review, err := c.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: r.User, Groups: r.Groups, ResourceAttributes: &r.Asked},
	}, metav1.CreateOptions{})
	switch {
	case err != nil:
		return unknown
	case review.Status.Allowed:
		return yes
	}
	return no
}
