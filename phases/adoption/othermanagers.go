package adoption

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

// refuseOtherManagers finds cloud-controller-managers that somebody else has brought, by their pods or by a Lease that
// is renewed: the first of two to write a provider ID would decide for ever.
func refuseOtherManagers(ctx context.Context, env *workflow.Env, s *settings.Settings) error {
	client, err := workflow.Connect(env, machine.AdminConf)
	if err != nil {
		return err
	}
	ours, err := workloadIsOurs(ctx, client, s)
	if err != nil {
		return err
	}
	pods, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return finding.Refusedf("look for other cloud-controller-managers: %w", err).WithHint("nothing was changed")
	}
	var found []string
	known := templates.Known()
	for i := range pods.Items {
		p := &pods.Items[i]
		m, is := known.Recognize(p.Name, p.Spec.Containers)
		if is && !m.Agent && !podIsOurs(p, s) {
			found = append(found, p.Namespace+"/"+p.Name)
		}
	}
	if len(found) > 0 {
		return finding.Refusedf("another cloud-controller-manager is running: Pod/%s", strings.Join(found, ", Pod/")).
			WithHint("remove it first, with the Helm release or manifest that installed it; nothing was changed")
	}
	former, err := s.FormerProfile()
	switch {
	case err != nil || ours:
		return err
	case former != nil && former.LeaseName() == s.Profile.LeaseName(): // whose it is shows once the former has ended
		return nil
	case former == nil && s.Recorded != nil: // a leave that was cut short has taken the workload; its Lease outlives it
		return nil
	}
	_, err = manager.RefuseLeader(ctx, env, client, s.Profile.LeaseName(), "stop it first; nothing was changed")
	return err
}

// podIsOurs goes by labels: while a pod ends, its workload may be gone.
func podIsOurs(p *corev1.Pod, s *settings.Settings) bool {
	if p.Labels[v1alpha1.ManagedByLabel] != v1alpha1.FieldManager || nodes.IsMirror(p) {
		return false
	}
	name := p.Labels[v1alpha1.NameLabel]
	if name == manifests.WorkloadName(s.Profile) {
		return true
	}
	former, err := s.FormerProfile()
	return err == nil && former != nil && name == manifests.WorkloadName(former)
}

// workloadIsOurs tells whether an earlier run has applied it already. One of the same name may be a vendor's.
func workloadIsOurs(ctx context.Context, client kubernetes.Interface, s *settings.Settings) (bool, error) {
	live, err := record.GetWorkload(ctx, client, s.Mode, manifests.WorkloadName(s.Profile))
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, finding.Refusedf("look for a cloud-controller-manager: %w", err).WithHint("nothing was changed")
	}
	object, err := meta.Accessor(live)
	if err != nil {
		return false, err
	}
	return object.GetLabels()[v1alpha1.ManagedByLabel] == v1alpha1.FieldManager, nil
}
