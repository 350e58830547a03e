package adoption

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	metadataclient "k8s.io/client-go/metadata"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/manifests/apply"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// refuseServed finds what the present provider does for the cluster, and the next one would not go on with. Whether
// provider IDs allow the change is found with each Node, when the plan is made.
func refuseServed(ctx context.Context, r *workflow.Run, known *config.CloudConfiguration) error {
	if known.WantsRoutes() {
		return finding.Refusedf("adopt with provider %q: the pods' network is the routes that provider %s sets",
			r.Said.Provider, known.Provider).
			WithHint("install a CNI plugin, then `ccmadm apply -f FILE` with routes: false. Nothing was changed")
	}
	client, err := workflow.Connect(r.Env, machine.AdminConf)
	if err != nil {
		return err
	}
	found, err := balancers(ctx, client)
	if err != nil {
		return finding.Refusedf("look for load balancers: %w", err).WithHint("nothing was changed")
	}
	if len(found) > 0 {
		return finding.Refusedf("adopt with provider %q: these have load balancers of provider %s: Service/%s",
			r.Said.Provider, known.Provider, strings.Join(found, ", Service/")).
			WithHint("delete them, or make them of another type, first; nothing was changed")
	}
	return nil
}

// formerProvider takes away the manager of another provider before anything of the new one is there: two would each
// initialize Nodes. Its permissions go with the new one's coming.
func formerProvider() workflow.Phase {
	return workflow.Phase{
		Name:  "former-provider",
		Short: "Take away the cloud-controller-manager of another provider, if the cluster has one",
		Long: `Reads the cluster's record. Where it says another provider, removes its workload and its agents, and waits
until its pods have ended; then gives back what our provider held of Services. Its files stay until the new one's take
their place in "cloud-config", and are marked with whose they are. Until "begin" the record leads back: ccmadm apply.`,
		Run: func(ctx context.Context, r *workflow.Run) error {
			s, err := r.Settings(ctx)
			if err != nil {
				return err
			}
			profile, err := s.FormerProfile()
			if err != nil || profile == nil {
				return err
			}
			if r.DryRun {
				r.Sayf("would remove the cloud-controller-manager of provider %s, and wait until it has ended", profile.Name)
				r.NoteChange(true)
				return nil
			}
			applier, err := workflow.NewApplier(r.Env, machine.AdminConf)
			if err != nil {
				return err
			}
			if err := removeSets(ctx, r.Env, applier, apply.Addon); err != nil {
				return err
			}
			if err := removeSets(ctx, r.Env, applier, apply.NodeAgent); err != nil {
				return err
			}
			client, err := workflow.Connect(r.Env, machine.AdminConf)
			if err != nil {
				return err
			}
			if _, err := goneInTime(ctx, client, manifests.WorkloadName(profile)); err != nil {
				return &finding.Error{
					Code: finding.ExitNotInTime, Err: err,
					Hint: "run the same command again: it resumes; `ccmadm apply` restores the former one",
				}
			}
			r.Sayf("the cloud-controller-manager of provider %s has ended", profile.Name)
			if err := releaseBalancers(ctx, r, client); err != nil {
				return err
			}
			if err := manager.EndLease(ctx, r.Env, client, s.Profile.LeaseName()); err != nil {
				return err
			}
			return markFiles(ctx, client, profile.Name)
		},
	}
}

// sayPools tells of pools and peers of a cluster whose next provider does not serve them. They stay, as their definitions do.
func sayPools(ctx context.Context, env *workflow.Env, s *settings.Settings) error {
	former, err := s.FormerProfile()
	if err != nil || former == nil || s.Profile.NodeAgent != nil {
		return err
	}
	config, err := workflow.RESTConfig(env, machine.AdminConf)
	if err != nil {
		return err
	}
	client, err := metadataclient.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("look for pools: %w", err)
	}
	var found []string
	for _, kind := range []string{"AddressPool", "BGPPeer"} {
		resource := resourceOf(client, schema.FromAPIVersionAndKind(v1alpha1.APIVersion, kind))
		list, err := resource.List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			continue // the API server does not know such objects
		}
		if err != nil {
			return finding.Refusedf("look for objects of kind %s: %w", kind, err).WithHint("nothing was changed")
		}
		for i := range list.Items {
			found = append(found, kind+"/"+list.Items[i].Name)
		}
	}
	if len(found) == 0 {
		return nil
	}
	env.Sayf("warning, provider %q does not serve what stays of provider %s: %s", s.Provider, former.Name, strings.Join(found, ", "))
	return nil
}

// markFiles notes on the Secret with a provider's files whose they are, while the cluster goes to another one: no other
// provider is to be given them, and a way back needs them.
func markFiles(ctx context.Context, client kubernetes.Interface, provider string) error {
	secrets := client.CoreV1().Secrets(v1alpha1.Namespace)
	patch := fmt.Appendf(nil, `{"metadata": {"annotations": {%q: %q}}}`, v1alpha1.FilesOfAnnotation, provider)
	err := journal.Ask(ctx, func(ctx context.Context) error {
		options := metav1.PatchOptions{FieldManager: v1alpha1.FieldManager}
		_, err := secrets.Patch(ctx, v1alpha1.CloudConfigName, types.MergePatchType, patch, options)
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("note whose files are in Secret/%s/%s: %w", v1alpha1.Namespace, v1alpha1.CloudConfigName, err)
	}
	return nil
}

// dropsOthersFiles has a phase that brings a provider's files remove those of another provider first.
func dropsOthersFiles(p workflow.Phase) workflow.Phase {
	run := p.Run
	p.Run = func(ctx context.Context, r *workflow.Run) error {
		s, err := r.Settings(ctx)
		if err != nil {
			return err
		}
		if _, err := manager.CloudFiles(ctx, r, s); err != nil { // what cannot be read replaces nothing
			return err
		}
		if err := dropOthersFiles(ctx, r.Env, s); err != nil {
			return err
		}
		return run(ctx, r)
	}
	return p
}

// dropOthersFiles removes the files of another provider, once those of this one are to come.
func dropOthersFiles(ctx context.Context, env *workflow.Env, s *settings.Settings) error {
	if env.DryRun {
		return nil
	}
	client, err := workflow.Connect(env, machine.AdminConf)
	if err != nil {
		return err
	}
	secret, err := client.CoreV1().Secrets(v1alpha1.Namespace).Get(ctx, v1alpha1.CloudConfigName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && !manager.OfAnother(secret, s.Provider) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for the files of another provider: %w", err)
	}
	applier, err := workflow.NewApplier(env, machine.AdminConf)
	if err != nil {
		return err
	}
	return removeSets(ctx, env, applier, apply.CloudConfig, apply.Inventory)
}

// OtherProvider lets adopt change the provider where nothing in the cluster depends on the present one.
func (a *Adoption) OtherProvider(ctx context.Context, r *workflow.Run, known *config.CloudConfiguration) (bool, error) {
	if a.Leave {
		return a.Ordinary.OtherProvider(ctx, r, known)
	}
	return true, refuseServed(ctx, r, known)
}
