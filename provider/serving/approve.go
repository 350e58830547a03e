package serving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/objects"
)

const (
	// workers judge the requests of as many kubelets at a time: some five small reads for each request.
	workers = 4
	// newest is how many pending requests of one requester are judged. A kubelet waits for one of them, the last.
	newest = 3
	// lookAgain is when what stays pending is looked at again, though nothing of its Node has changed: what stood in
	// the way may be another Node, or the inventory. Each time it takes twice as long, up to lookSeldom.
	lookAgain  = time.Minute
	lookSeldom = time.Hour
)

// Run approves until ctx is done. The informer of Nodes is run by another program.
func (a *Approver) Run(ctx context.Context) {
	defer a.queue.ShutDown()
	a.metrics.register()
	go a.requests.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), a.requests.HasSynced, a.Nodes.HasSynced) {
		return
	}
	klog.InfoS("Approving serving certificates of kubelets")
	for range workers {
		go func() {
			for a.next(ctx) {
			}
		}()
	}
	<-ctx.Done()
}

// next takes one requester from the queue; false: there will be none any more.
func (a *Approver) next(ctx context.Context) bool {
	requester, shutdown := a.queue.Get()
	if shutdown {
		return false
	}
	defer a.queue.Done(requester)
	a.looks.note(requester, time.Now())
	err := a.look(ctx, requester)
	var held *Hold
	switch {
	case errors.As(err, &held):
		a.queue.Forget(requester)
		a.queue.AddAfter(requester, cmp.Or(held.Again, a.held.When(requester)))
	case err != nil:
		klog.ErrorS(err, "A serving certificate is not approved yet", "requester", requester)
		a.queue.AddRateLimited(requester)
	default:
		a.queue.Forget(requester)
		a.held.Forget(requester)
		a.looks.forget(requester)
	}
	return true
}

// look judges the newest requests of one requester that are pending, and approves each or tells why not. Older ones are
// left alone: nothing waits for them, and there may be thousands. The error is a *Hold where some stay pending.
func (a *Approver) look(ctx context.Context, requester string) error {
	waiting, err := a.pendingOf(requester)
	if err != nil {
		return err
	}
	var first *Hold // the one that is looked at again soonest, if time alone changes it
	for _, csr := range waiting[:min(len(waiting), newest)] {
		err := a.check(ctx, csr)
		var held *Hold
		switch {
		case errors.As(err, &held):
			a.tell(csr, held)
			if first == nil || held.Again != 0 && (first.Again == 0 || held.Again < first.Again) {
				first = held
			}
			continue
		case err != nil:
			return fmt.Errorf("judge CertificateSigningRequest/%s: %w", csr.Name, err)
		}
		if err := a.approve(ctx, csr); err != nil {
			return err
		}
	}
	if first != nil {
		return first
	}
	return nil
}

// pendingOf lists a requester's requests on which nobody has decided, the newest first: they are not written while they
// are pending.
func (a *Approver) pendingOf(requester string) ([]*certificatesv1.CertificateSigningRequest, error) {
	objects, err := a.requests.GetIndexer().ByIndex(byRequester, requester)
	if err != nil {
		return nil, fmt.Errorf("find CertificateSigningRequests of %s: %w", requester, err)
	}
	var waiting []*certificatesv1.CertificateSigningRequest
	for _, object := range objects {
		if csr, ok := object.(*certificatesv1.CertificateSigningRequest); ok && pending(csr) {
			waiting = append(waiting, csr)
		}
	}
	slices.SortFunc(waiting, func(a, b *certificatesv1.CertificateSigningRequest) int {
		order, err := resourceversion.CompareResourceVersion(b.ResourceVersion, a.ResourceVersion)
		if err != nil {
			return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
		}
		return order
	})
	return waiting, nil
}

// check is nil if the request may be approved. The Node is read again: what a cache says of it may be older than the
// request.
func (a *Approver) check(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error {
	r, err := parse(csr)
	if err != nil {
		return err
	}
	node, err := a.Client.CoreV1().Nodes().Get(ctx, r.node, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return hold("NoNode", "Node/%s does not exist", r.node)
	case err != nil:
		return fmt.Errorf("get Node/%s: %w", r.node, err)
	}
	if err := resolved(node); err != nil {
		return err
	}
	if csr.CreationTimestamp.Before(&node.CreationTimestamp) {
		return hold("OlderThanNode", "it is older than Node/%s, so it may come from an earlier machine of that name: "+
			"the kubelet sends another request within a quarter of an hour", node.Name)
	}
	identity, err := a.Prover.Identify(ctx, node)
	if err != nil {
		return err
	}
	j := judgement{node: node, identity: identity, others: a.others(node.Name), ranges: a.Ranges, names: a.Names}
	if err := j.of(r); err != nil {
		return err // the API server is not asked for names that are refused anyway
	}
	if j.reserved, err = a.reserved(ctx, r.names); err != nil {
		return err
	}
	return j.of(r)
}

// resolved is an error as long as no cloud-controller-manager has said which machine the Node is.
func resolved(node *corev1.Node) error {
	for _, taint := range node.Spec.Taints {
		if taint.Key == v1alpha1.UninitializedTaint {
			return hold("NotInitialized", "Node/%s has taint %s: no cloud-controller-manager has identified its machine yet",
				node.Name, v1alpha1.UninitializedTaint)
		}
	}
	switch {
	case node.Spec.ProviderID == "":
		return hold("NoProviderID", "Node/%s has no provider ID: no cloud-controller-manager has identified its machine", node.Name)
	case node.DeletionTimestamp != nil:
		return hold("NodeGoes", "Node/%s is being deleted", node.Name)
	}
	return nil
}

func (a *Approver) others(name string) []*corev1.Node {
	return slices.DeleteFunc(objects.List[*corev1.Node](a.Nodes.GetStore()), func(node *corev1.Node) bool { return node.Name == name })
}

// approve sets the condition on the request as it was judged: one that has changed is judged again.
func (a *Approver) approve(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error {
	approved := csr.DeepCopy()
	approved.Status.Conditions = append(approved.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "AddressesOfTheNode",
		Message: "requester, names and addresses are those of the Node",
	})
	_, err := a.Client.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, csr.Name, approved, metav1.UpdateOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("approve CertificateSigningRequest/%s: %w", csr.Name, err)
	}
	a.told.forget(csr.Name)
	a.metrics.approved.Inc()
	klog.InfoS("Approved a serving certificate", "csr", csr.Name, "requester", csr.Spec.Username)
	return nil
}

// pending reports whether the request is neither approved nor denied.
func pending(csr *certificatesv1.CertificateSigningRequest) bool {
	return len(csr.Status.Certificate) == 0 && len(csr.Status.Conditions) == 0
}
