package phases

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
)

// askPurge notes on a Node that its machine is to lose all that is ccmadm's, or takes the note back. Of a step by hand
// nobody else would say whether it was done: what it removes are files.
func askPurge(ctx context.Context, client kubernetes.Interface, name string, ask bool) error {
	value := ""
	if ask {
		value = "asked"
	}
	err := annotateNode(ctx, client, name, v1alpha1.PurgeAnnotation, value)
	if err != nil {
		return fmt.Errorf("note on Node/%s what its machine is to lose: %w", name, err)
	}
	return nil
}

// tellPurged answers a note of askPurge as this machine's kubelet, which may change its own Node. Whoever does the step
// without a run that waits for it needs no answer: where none can be given, it says so.
func tellPurged(ctx context.Context, d *Data) {
	if d.DryRun {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	name := nodeOfKubelet(d.Machine)
	client, err := connect(d, machine.KubeletConf)
	if err == nil {
		err = answerPurge(ctx, client, name)
	}
	if err != nil {
		d.Sayf("warning, a `ccmadm leave --purge` that waits for this machine is not told: %v", err)
	}
}

// answerPurge takes the note of askPurge back, if there is one: it is done.
func answerPurge(ctx context.Context, client kubernetes.Interface, name string) error {
	node, err := askNode(ctx, client, name)
	if err != nil {
		return fmt.Errorf("ask for Node/%s: %w", name, err)
	}
	if node.Annotations[v1alpha1.PurgeAnnotation] == "" {
		return nil
	}
	return askPurge(ctx, client, name, false)
}
