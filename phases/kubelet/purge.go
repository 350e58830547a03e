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

// AskPurge notes on a Node that its machine is to lose all that is ccmadm's, or takes the note back. Of a step by hand
// nobody else would say whether it was done: what it removes are files.
func AskPurge(ctx context.Context, client kubernetes.Interface, name string, ask bool) error {
	value := ""
	if ask {
		value = "asked"
	}
	err := workflow.AnnotateNode(ctx, client, name, v1alpha1.PurgeAnnotation, value)
	if err != nil {
		return fmt.Errorf("note on Node/%s what its machine is to lose: %w", name, err)
	}
	return nil
}

// tellPurged answers a note of askPurge as this machine's kubelet, which may change its own Node. Whoever does the step
// without a run that waits for it needs no answer: where none can be given, it says so.
func tellPurged(ctx context.Context, env *workflow.Env) {
	if env.DryRun {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	name := workflow.NodeOfKubelet(env.Machine)
	client, err := workflow.Connect(env, machine.KubeletConf)
	if err == nil {
		err = AnswerPurge(ctx, client, name)
	}
	if err != nil {
		env.Sayf("warning, a `ccmadm leave --purge` that waits for this machine is not told: %v", err)
	}
}

// AnswerPurge takes the note of askPurge back, if there is one: it is done.
func AnswerPurge(ctx context.Context, client kubernetes.Interface, name string) error {
	node, err := workflow.AskNode(ctx, client, name)
	if err != nil {
		return fmt.Errorf("ask for Node/%s: %w", name, err)
	}
	if node.Annotations[v1alpha1.PurgeAnnotation] == "" {
		return nil
	}
	return AskPurge(ctx, client, name, false)
}
