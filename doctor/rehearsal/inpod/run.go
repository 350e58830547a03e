// Package inpod has a rehearsal done by a pod on a control plane, where the provider's image, the machine's
// network and its identity in the cloud are, and takes everything away afterwards.
//
// Start at [Run]. The objects are of package manifests; what is said in the pod is of package doctor/rehearsal, and
// comes back by its log (follow.go). The pod may read only, and an admission policy denies whatever it would write; the
// pod is made once that policy is seen to be in force (policy.go).
//
// Reads: Nodes, the API server's version, what its user may do. Writes: a namespace and some cluster-wide objects, all
// named and labelled as that namespace, and removes them in every case but that of its own sudden end. What is left
// then the next run finds by the label, and removes if its Lease has run out (leftovers.go).
package inpod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/rehearsal"
	"github.com/ccmadm/ccmadm/doctor/runlease"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/templates"
)

// Options say what is rehearsed, and with which images.
type Options struct {
	// Cluster is how the API server is reached, by a user who may make what a rehearsal in a pod takes.
	Cluster *rest.Config
	// Profile is the provider's. Values need no version of Kubernetes: it is the cluster's.
	Profile *templates.Profile
	Values  templates.Values
	// Files are the provider's configuration and credentials, by their names.
	Files map[string][]byte
	// Task is what is done in the pod. Its Log and Progress are told what is said there.
	Task rehearsal.Options
	// OwnImage has ccmadm as its entrypoint.
	OwnImage string
	// Holder says for people who rehearses.
	Holder string
}

// elsewhere is the hint where a pod is not possible.
const elsewhere = "--binary rehearses on this machine, with a kubeconfig that need not be able to write"

// requestTimeout is how long a single question to the API server may take.
const requestTimeout = 30 * time.Second

// run is one rehearsal.
type run struct {
	Options
	name    string
	client  kubernetes.Interface
	dynamic dynamic.Interface
	objects []*manifests.Object
	pod     *corev1.Pod
}

// Run rehearses in a pod. With a report an error says that something was left behind.
func Run(ctx context.Context, o Options) (report *rehearsal.Report, err error) {
	r, err := newRun(o)
	if err != nil {
		return nil, err
	}
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), removalPatience)
		defer cancel()
		left := r.remove(last, r.name)
		switch {
		case left != nil && err == nil:
			err = left
		case left != nil:
			r.tell("%v", left)
		}
	}()
	return r.do(ctx)
}

func newRun(o Options) (*run, error) {
	r := &run{Options: o, name: v1alpha1.RehearsalPrefix + rand.String(5)}
	var err error
	if r.client, err = kubernetes.NewForConfig(o.Cluster); err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	if r.dynamic, err = dynamic.NewForConfig(o.Cluster); err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return r, nil
}

// prepare finds out all that can be known before anything is made.
func (r *run) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := r.render(); err != nil {
		return err
	}
	if err := r.permitted(ctx); err != nil {
		return err
	}
	return r.placeable(ctx)
}

// limit has room for both passes, a second look at what was unclear, and a start that is tried again.
func (r *run) limit() time.Duration { return 3*r.Task.Timeout + 2*time.Minute }

func (r *run) render() error {
	version, err := r.client.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("ask the API server for its version: %w", err)
	}
	r.Values.KubernetesVersion = version.GitVersion
	task, err := json.Marshal(r.Task)
	if err != nil {
		return fmt.Errorf("encode the task: %w", err)
	}
	own := manifests.RehearsalRun{
		Name: r.name, Holder: r.Holder, OwnImage: r.OwnImage, Task: task, Files: r.Files, Limit: r.limit(),
	}
	if r.Task.Log != nil {
		own.Args = []string{"--log"}
	}
	if r.objects, err = manifests.Rehearsal(r.Profile, r.Values, own); err != nil {
		return err
	}
	if r.pod, err = manifests.RehearsalPod(r.Profile, r.Values, own); err != nil {
		return finding.Usagef("%w", err).WithHint("--image names one")
	}
	return nil
}

// placeable says that a control plane is there, which a managed one is not. The scheduler reports whether one has room.
func (r *run) placeable(ctx context.Context) error {
	list, err := r.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.ControlPlaneLabel})
	if err != nil {
		return fmt.Errorf("list the control planes: %w", err)
	}
	var cordoned []string
	for _, n := range list.Items {
		if !n.Spec.Unschedulable {
			return nil
		}
		cordoned = append(cordoned, n.Name)
	}
	if len(cordoned) > 0 {
		return finding.Refusedf("rehearse on a control plane: kubectl cordon keeps pods from every one: %v", cordoned).
			WithHint(elsewhere)
	}
	return finding.Refusedf("rehearse on a control plane: no Node has the label %s", v1alpha1.ControlPlaneLabel).
		WithHint(elsewhere)
}

func (r *run) do(ctx context.Context) (*rehearsal.Report, error) {
	if err := r.removeLeftovers(ctx); err != nil {
		return nil, err
	}
	if err := r.create(ctx); err != nil {
		return nil, err
	}
	alive, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() { end(r.runLease().Renew(alive, nil)) }()
	report, err := r.rehearse(alive)
	if lost := context.Cause(alive); err != nil && errors.Is(lost, runlease.ErrLost) {
		return nil, finding.Errorf("rehearse in Namespace/%s: %w", r.name, lost).WithHint("run the same command again")
	}
	return report, err
}

// rehearse makes the pod, and returns what it reports.
func (r *run) rehearse(ctx context.Context) (*rehearsal.Report, error) {
	if err := r.inForce(ctx); err != nil {
		return nil, err
	}
	r.tell("rehearsing in Pod/%s/%s, image %s", r.name, r.name, r.pod.Spec.Containers[0].Image)
	options := metav1.CreateOptions{FieldManager: v1alpha1.FieldManager}
	_, err := r.client.CoreV1().Pods(r.name).Create(ctx, r.pod, options)
	switch {
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
		return nil, finding.Refusedf("run a pod on a control plane: the cluster's admission forbids it: %w", err).
			WithHint(elsewhere)
	case err != nil:
		return nil, fmt.Errorf("create Pod/%s/%s: %w", r.name, r.name, err)
	}
	return r.report(ctx)
}

// create makes the objects. The namespace is the first, and owns those that are outside of it: whoever deletes it by
// hand leaves nothing behind.
func (r *run) create(ctx context.Context) error {
	var owner []metav1.OwnerReference
	for _, o := range r.objects {
		if o.GetNamespace() != r.name {
			o.SetOwnerReferences(owner)
		}
		made, err := r.createOne(ctx, o)
		if err != nil {
			return err
		}
		if owner == nil {
			owner = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: r.name, UID: made.GetUID()}}
		}
	}
	return nil
}

func (r *run) createOne(ctx context.Context, o *manifests.Object) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	resource, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
	made, err := r.dynamic.Resource(resource).Namespace(o.GetNamespace()).Create(ctx, o,
		metav1.CreateOptions{FieldManager: v1alpha1.FieldManager})
	name := o.GetKind() + "/" + o.GetName()
	switch {
	case err == nil:
		return made, nil
	case apierrors.IsNotFound(err) && resource.Group == "admissionregistration.k8s.io":
		return nil, finding.Refusedf("create %s: the API server has no such kind, and nothing else is a second lock", name).
			WithHint(elsewhere)
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
		return nil, finding.Refusedf("create %s: %w", name, err).WithHint(elsewhere)
	}
	return nil, fmt.Errorf("create %s: %w", name, err)
}

func (r *run) tell(format string, args ...any) {
	if r.Task.Progress != nil {
		r.Task.Progress(fmt.Sprintf(format, args...))
	}
}
