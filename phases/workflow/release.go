package workflow

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
)

// NoteRelease notes on the Node of a control plane which ccmadm has worked there, at the end of a run that has come
// through: by that, others are found that are of another release. Leaving takes all notes back. The end of the run is
// not at stake.
func NoteRelease(ctx context.Context, r *Run) {
	UpdateReleases(r, func(client kubernetes.Interface) error {
		name, err := NodeName(r.Host)
		if err != nil {
			return err
		}
		return NoteReleaseOn(ctx, client, name, r.Version)
	})
}

// UpdateReleases changes notes of Nodes at the end of a run on a control plane. A failure is a warning.
func UpdateReleases(r *Run, update func(kubernetes.Interface) error) {
	if r.DryRun || r.Single {
		return
	}
	controlPlane, err := ControlPlaneHere(r.Machine)
	if err != nil || !controlPlane {
		return
	}
	client, err := Connect(r.Env, machine.AdminConf)
	if err == nil {
		err = update(client)
	}
	if err != nil {
		r.InPhase("release").Sayf("warning: update the ccmadm versions noted on Nodes: %v", err)
	}
}

// RemoveReleases takes the notes of all Nodes back.
func RemoveReleases(ctx context.Context, client kubernetes.Interface) error {
	list, err := AskNodes(ctx, client)
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	var wrong []error
	for i := range list.Items {
		if list.Items[i].Annotations[v1alpha1.ReleaseAnnotation] != "" {
			wrong = append(wrong, NoteReleaseOn(ctx, client, list.Items[i].Name, ""))
		}
	}
	return errors.Join(wrong...)
}

// NoteReleaseOn writes where it says something else; empty: nothing.
func NoteReleaseOn(ctx context.Context, client kubernetes.Interface, name, release string) error {
	node, err := AskNode(ctx, client, name)
	if err == nil && node.Annotations[v1alpha1.ReleaseAnnotation] != release {
		err = AnnotateNode(ctx, client, name, v1alpha1.ReleaseAnnotation, release)
	}
	if err != nil {
		return fmt.Errorf("note on Node/%s which ccmadm is there: %w", name, err)
	}
	return nil
}
