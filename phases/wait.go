package phases

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/kubeadm"
)

func waitNodes() Phase {
	return Phase{
		Name:  "wait",
		Short: "Wait until the node is initialized, or say why it is not",
		Long:  "Reads this machine's Node, the cloud-controller-manager's pods, its Lease and Events. Writes nothing. Does not wait for the node to be Ready, which takes a CNI plugin.",
		Foretell: func(ctx context.Context, d *Data) (string, error) {
			s, err := d.Settings(ctx)
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("would wait up to %s for this node", s.Wait.Timeout.Duration), nil
		},
		Run: func(ctx context.Context, d *Data) error {
			s, err := d.Settings(ctx)
			if err != nil {
				return err
			}
			if s.Mode == v1alpha1.ModeManual {
				d.Sayf("mode Manual: `ccmadm wait` waits, once your cloud-controller-manager runs")
				return nil
			}
			name, err := nodeName(d)
			if err != nil {
				return err
			}
			client, err := connect(d, nodeConf(d))
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(ctx, s.Wait.Timeout.Duration)
			defer cancel()
			wanted := nodes.WaitOptions{Nodes: []string{name}, Until: nodes.Addressed, Lease: s.Profile.LeaseName()}
			if err := Wait(ctx, client, wanted, nodes.NewDisplay(d.Output, d.Out)); err != nil {
				return err
			}
			if d.Role == kubeadm.RoleInit {
				if err := sayUnlabelled(ctx, d, client); err != nil {
					d.Sayf("warning, it is not known whether a control plane has lost its label: %v", err)
				}
			}
			return noteInitialized(d)
		},
	}
}

// noteInitialized remembers that the cluster's settings have proven themselves on this machine.
func noteInitialized(d *Data) error {
	s, err := machineState(d)
	if err != nil || d.DryRun || !s.known || s.Initialized || d.Role != kubeadm.RoleInit {
		return err
	}
	s.Initialized = true
	return s.keep(d.Machine)
}

// Wait follows nodes until each is in the wanted state, or ctx ends. It shows every change.
func Wait(ctx context.Context, client kubernetes.Interface, o nodes.WaitOptions, r nodes.Display) error {
	o.Changed = r.Show
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
	rec, err := v1alpha1.DecodeRecord(v1alpha1.RecordName, []byte(cm.Data[v1alpha1.RecordKey]))
	if err != nil {
		return ""
	}
	profile, err := recordedProfile(rec)
	if err != nil {
		return ""
	}
	return profile.LeaseName()
}
