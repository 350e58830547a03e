package phases

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
)

// noteRelease notes on the Node of a control plane which ccmadm has worked there, at the end of a run that has come
// through: by that, others are found that are of another release. Leaving takes all notes back. The end of the run is
// not at stake.
func noteRelease(ctx context.Context, d *Data) {
	if d.DryRun || d.Single {
		return
	}
	controlPlane, err := ControlPlaneHere(d.Machine)
	if err != nil || !controlPlane {
		return
	}
	client, err := connect(d, machine.AdminConf)
	if err == nil {
		var name string
		if name, err = nodeName(d); err == nil {
			err = noteReleaseOn(ctx, client, name, d.Version)
		}
	}
	sayReleaseUnnoted(d, err)
}

func sayReleaseUnnoted(d *Data, err error) {
	if err != nil {
		d.in("release").Sayf("warning: update the ccmadm version noted on the Node: %v", err)
	}
}

// removeReleases takes the notes of all Nodes back.
func removeReleases(ctx context.Context, client kubernetes.Interface) error {
	list, err := askNodes(ctx, client)
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	var wrong []error
	for i := range list.Items {
		if list.Items[i].Annotations[v1alpha1.ReleaseAnnotation] != "" {
			wrong = append(wrong, noteReleaseOn(ctx, client, list.Items[i].Name, ""))
		}
	}
	return errors.Join(wrong...)
}

// noteReleaseOn writes where it says something else; empty: nothing.
func noteReleaseOn(ctx context.Context, client kubernetes.Interface, name, release string) error {
	node, err := askNode(ctx, client, name)
	if err == nil && node.Annotations[v1alpha1.ReleaseAnnotation] != release {
		err = annotateNode(ctx, client, name, v1alpha1.ReleaseAnnotation, release)
	}
	if err != nil {
		return fmt.Errorf("note on Node/%s which ccmadm is there: %w", name, err)
	}
	return nil
}
