package kubelet

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/kubeadm/identity"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// PurgeFiles removes all that is ccmadm's on this machine, with what it has kept of former versions.
func PurgeFiles(env *workflow.Env) error {
	files, err := workflow.FilesIn(env.Machine, machine.ConfigDir)
	if err != nil {
		return err
	}
	// Of the first write of one that was killed there is nothing but what was not written to its end.
	files = append(files, machine.RecordFile, machine.StateFile, machine.KubeadmConfig,
		machine.PreviousName(machine.KubeadmFlags))
	slices.Sort(files)
	files = slices.Compact(files)
	certsDir, err := identity.CertificatesDir(env.Machine)
	if err != nil {
		return err
	}
	kept, err := identity.Kept(env.Machine, certsDir)
	if err != nil {
		return err
	}
	if kept {
		env.Sayf("%s stays: it is yours, or cannot be made again, as %s is not here", machine.CCMKubeconfig, filepath.Join(certsDir, "ca.key"))
	} else { // before the record, which says where the CA is
		files = append([]string{machine.CCMKubeconfig}, files...)
	}
	for _, path := range files {
		if err := workflow.Remove(env, path); err != nil {
			return err
		}
	}
	return workflow.RemoveEmptyDir(env, machine.ConfigDir)
}

// Asked is what a run by hand waits for on a machine, as a note on its Node has it.
type Asked string

// The notes.
const (
	AskedNothing Asked = ""
	AskedForget  Asked = "forget" // `ccmadm node plain --forget`
	AskedPurge   Asked = "asked"  // `ccmadm node plain --purge`
)

// Ask notes on a Node what is to be done on its machine, or takes the note back. Of a step by hand nobody else would say
// whether it was done: a Node shows neither files nor, without --node-ip, the mode of its kubelet.
func Ask(ctx context.Context, client kubernetes.Interface, name string, what Asked) error {
	err := workflow.AnnotateNode(ctx, client, name, v1alpha1.PurgeAnnotation, string(what))
	if err != nil {
		return fmt.Errorf("note on Node/%s what its machine is to lose: %w", name, err)
	}
	return nil
}

// tellDone answers a note of [Ask] as this machine's kubelet, which may change its own Node. Whoever does the step
// without a run that waits for it needs no answer: where none can be given, it says so.
func tellDone(ctx context.Context, env *workflow.Env, done Asked) {
	if env.DryRun {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	name := workflow.NodeOfKubelet(env.Machine)
	client, err := workflow.Connect(env, machine.KubeletConf)
	if err == nil {
		err = Answer(ctx, client, name, done)
	}
	if err != nil {
		env.Sayf("warning, a `ccmadm leave` that waits for this machine is not told: %v", err)
	}
}

// Answer takes the note of [Ask] back, if there is one and no more is asked for: it is done.
func Answer(ctx context.Context, client kubernetes.Interface, name string, done Asked) error {
	node, err := workflow.AskNode(ctx, client, name)
	if err != nil {
		return fmt.Errorf("ask for Node/%s: %w", name, err)
	}
	if asked := Asked(node.Annotations[v1alpha1.PurgeAnnotation]); asked == AskedNothing || asked == AskedPurge && done != AskedPurge {
		return nil
	}
	return Ask(ctx, client, name, AskedNothing)
}
