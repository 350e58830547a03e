package workflow

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/phases/settings"
)

// NoteInitialized remembers that the cluster's settings have proven themselves on this machine.
func NoteInitialized(h *Host) error {
	s, err := MachineState(h.Env)
	if err != nil || h.DryRun || !s.Known || s.Initialized || h.Role != kubeadm.RoleInit {
		return err
	}
	s.Initialized = true
	return s.Write(h.Machine)
}

// Wait follows nodes until each is in the wanted state, or ctx ends. It shows every change.
func Wait(ctx context.Context, client kubernetes.Interface, o nodes.WaitOptions, r nodes.Display) error {
	o.Changed = r.Show
	if table, is := r.(*nodes.Table); is {
		o.Left = table.Left
	}
	_, err := nodes.Wait(ctx, client, o)
	if closeErr := r.Close(); err == nil && closeErr != nil {
		return fmt.Errorf("show the state of nodes: %w", closeErr)
	}
	var late *nodes.WaitError
	if errors.As(err, &late) {
		return &finding.Error{Code: finding.ExitNotInTime, Err: err, Hint: late.Hint()}
	}
	return err
}

// FindLease returns the name of the leader's Lease by the cluster's record, empty where there is none that one may see.
func FindLease(ctx context.Context, client kubernetes.Interface) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // where it does not answer, waiting says so better
	defer cancel()
	cm, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, v1alpha1.RecordName, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	rec, err := state.DecodeRecord(v1alpha1.RecordName, []byte(cm.Data[v1alpha1.RecordKey]))
	if err != nil {
		return ""
	}
	profile, err := settings.RecordedProfile(rec)
	if err != nil {
		return ""
	}
	return profile.LeaseName()
}
