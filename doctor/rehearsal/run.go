// Package rehearsal runs a provider's own cloud-controller-manager against a live cluster and lets it write nothing: it
// says of each Node whether the cloud recognizes it, what would be written to it, and whether it would be deleted.
//
// Start at [Run], which has two passes. In the first only upstream's node controller runs, and is shown every Node
// uninitialized; what it writes is what it would initialize (shadow.go, responses.go). In the second only the lifecycle
// controller runs, and is shown every Node as one whose kubelet posts no status, so that it asks the cloud for each.
// proxy.go is the only API server that the program knows; logparser.go has the reasons, which are in its log alone. What is
// said elsewhere, in a pod say, comes back as a stream (stream.go).
//
// Reads: Nodes, and whatever the program reads of the cluster, by GET; the program's cloud, as the program does.
// Writes: nothing to the cluster. It keeps a directory of its own while it runs. Two runs do not know of each other.
package rehearsal

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/templates"
)

// Options say what is rehearsed. As JSON they are a task for another process: what is of this process stays here.
type Options struct {
	// Cluster is how the API server is reached. Its user has to be able to read what the program reads.
	Cluster *rest.Config `json:"-"`
	// Program is the cloud-controller-manager's file.
	Program string `json:"program"`
	// Args are its own arguments, --flag=value, KubeconfigPlace among them where it takes a kubeconfig by other flags
	// than upstream's.
	Args []string `json:"args"`
	// Env is its environment, NAME=value: nothing of ours is added but an empty HOME.
	Env []string `json:"env"`
	// Lifecycle says that the program has the controller that deletes Nodes. Without it there is no second pass.
	Lifecycle bool `json:"lifecycle"`
	// MayRead are the rules by which it may read Secrets. It may read everything else.
	MayRead []templates.Rule `json:"mayRead"`
	// Timeout is how long a pass may take.
	Timeout time.Duration `json:"timeout"`
	// Log takes the program's own log. Nil: it is dropped.
	Log io.Writer `json:"-"`
	// Progress is told what has begun. Nil: it is dropped.
	Progress func(string) `json:"-"`
}

// Run rehearses. The error says what could not be done at all; what is wrong with Nodes is in the report.
func Run(ctx context.Context, o Options) (*Report, error) {
	config := readOnly(o.Cluster)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, finding.NoNodes.Errorf("rehearse: there is no Node")
	}
	dir, err := os.MkdirTemp("", "ccmadm-rehearse-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the rehearsal: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	r := &rehearsal{Options: o, upstream: config, dir: dir, nodes: list.Items}
	return r.run(ctx)
}

// rehearsal is one run.
type rehearsal struct {
	Options
	upstream *rest.Config
	dir      string
	nodes    []corev1.Node
}

func (r *rehearsal) run(ctx context.Context) (*Report, error) {
	r.tell("pass 1 of 2: %s, shown uninitialized to the node controller", finding.Count(len(r.nodes), "Node"))
	first := newShadow(r.nodes, uninitialized)
	one, err := r.pass(ctx, nodeController, first, first.initialized)
	if err != nil {
		return nil, err
	}
	if !r.Lifecycle {
		return r.report(one, nil), nil
	}
	r.tell("pass 2 of 2: shown without heartbeats to the lifecycle controller")
	silent := silentWith(first)
	two, err := r.lifecycle(ctx, silent)
	if err != nil {
		return nil, err
	}
	if unclear := two.failedNodes(); two.complete && len(unclear) > 0 {
		r.tell("asking again about %s", finding.Count(len(unclear), "Node"))
		again, err := r.lifecycle(ctx, silentOf(unclear, silent))
		if err != nil {
			return nil, err
		}
		two.confirm(again)
	}
	return r.report(one, two), nil
}

// lifecycle is a pass with the lifecycle controller.
func (r *rehearsal) lifecycle(ctx context.Context, view func(*corev1.Node)) (*result, error) {
	s := newShadow(r.nodes, view)
	s.addPhantoms()
	return r.pass(ctx, lifecycleController, s, s.asked)
}

func (r *rehearsal) tell(format string, args ...any) {
	if r.Progress != nil {
		r.Progress(fmt.Sprintf(format, args...))
	}
}
