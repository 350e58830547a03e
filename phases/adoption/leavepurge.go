package adoption

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metadataclient "k8s.io/client-go/metadata"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// purge goes behind everything else, the journal too: it is closed before it is removed.
func purge() workflow.Phase {
	return workflow.Phase{
		Name:  "purge",
		Short: "With --purge, remove what is still there of ccmadm: its journal, the manager's Lease, and the record",
		Long: "Reads objects with the label " + v1alpha1.ManagedByLabel + "=" + v1alpha1.FieldManager + ", and claims of\n" +
			"addresses. Removes those that ccmadm has applied or writes itself, and names the others, which stay. Removes\n" +
			"the Lease of the cloud-controller-manager, unless another one renews it. The record goes last: until then the same command resumes. Without --purge it does nothing.",
		Run: func(ctx context.Context, r *workflow.Run) error {
			if !adoptionOf(r).Purge || r.DryRun { // preflight has listed it
				return nil
			}
			if err := r.Close(ctx); err != nil {
				return err
			}
			ours, err := leftOfOurs(ctx, r.Env, kindsOfOurs())
			if err != nil {
				return err
			}
			for _, o := range ours {
				if o.subject == leaseKind().Kind+"/"+v1alpha1.Namespace+"/"+v1alpha1.RunLeaseName {
					return finding.Refusedf("purge: another ccmadm run has started, and uses the same journal").
						WithHint("`ccmadm journal` shows it; run the same command again when it has ended. Everything else is done")
				}
			}
			ours, err = onlyApplied(ctx, r.Env, ours)
			if err != nil {
				return err
			}
			for _, o := range ours {
				if o.ledBy() {
					continue
				}
				if err := o.remove(ctx); err != nil {
					return err
				}
				r.Sayf("%s removed", o.subject)
			}
			if err := manager.RemoveManagerLease(ctx, r); err != nil {
				return err
			}
			applier, err := workflow.NewApplier(r.Env, machine.AdminConf)
			if err != nil {
				return err
			}
			return removeApplied(ctx, r.Env, applier)
		},
	}
}

// leftover is an object of ours.
type leftover struct {
	subject string
	client  metadataclient.ResourceInterface
	name    string
	only    metav1.DeleteOptions // the one that was found
}

// ledBy tells of what a run that was cut short goes on by: the record, and the list of what was applied.
func (o *leftover) ledBy() bool {
	const maps = "ConfigMap/" + v1alpha1.Namespace + "/"
	return o.subject == maps+v1alpha1.RecordName || isAppliedList(o.subject)
}

func (o *leftover) remove(ctx context.Context) error {
	if err := o.client.Delete(ctx, o.name, o.only); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove %s: %w", o.subject, err)
	}
	return nil
}

// kindsOfOurs are what ccmadm makes, workloads first, which need the rest.
func kindsOfOurs() (list []schema.GroupVersionKind) {
	for _, group := range []struct {
		name  string
		kinds []string
	}{
		{"apps", []string{"DaemonSet", "Deployment"}},
		{"", []string{"Pod", "ConfigMap", "Secret", "ServiceAccount"}},
		{"rbac.authorization.k8s.io", []string{"RoleBinding", "Role", "ClusterRoleBinding", "ClusterRole"}},
		{"admissionregistration.k8s.io", []string{"ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"}},
		{"apiextensions.k8s.io", []string{"CustomResourceDefinition"}},
		{leaseKind().Group, []string{leaseKind().Kind}},
		{claimKind().Group, []string{claimKind().Kind}},
	} {
		for _, kind := range group.kinds {
			list = append(list, schema.GroupVersionKind{Group: group.name, Version: "v1", Kind: kind})
		}
	}
	return list
}

func leaseKind() schema.GroupVersionKind { return coordinationv1.SchemeGroupVersion.WithKind("Lease") }

// claimKind is that of the provider's claims of addresses.
func claimKind() schema.GroupVersionKind {
	return networkingv1.SchemeGroupVersion.WithKind("IPAddress")
}

// labelOfOurs is what objects of a kind have that are ours; Kubernetes has one of its own for whose an IPAddress is.
func labelOfOurs(kind schema.GroupVersionKind) string {
	if kind == claimKind() {
		return networkingv1.LabelManagedBy + "=" + v1alpha1.ClaimManager
	}
	return v1alpha1.ManagedByLabel + "=" + v1alpha1.FieldManager
}

// leftOfOurs lists what is ours of these kinds.
func leftOfOurs(ctx context.Context, env *workflow.Env, kinds []schema.GroupVersionKind) ([]leftover, error) {
	config, err := workflow.RESTConfig(env, machine.AdminConf)
	if err != nil {
		return nil, err
	}
	client, err := metadataclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("look for what is left: %w", err)
	}
	var found []leftover
	for _, kind := range kinds {
		list, err := resourceOf(client, kind).List(ctx, metav1.ListOptions{LabelSelector: labelOfOurs(kind)})
		if apierrors.IsNotFound(err) {
			continue // the API server does not know such objects
		}
		if err != nil {
			return nil, finding.Errorf("look for what is left as %s: %w", kind.Kind, err).WithHint("run the same command again: it resumes")
		}
		for i := range list.Items {
			if goesWithOwner(kind, &list.Items[i]) {
				continue
			}
			found = append(found, ofOurs(client, kind, &list.Items[i]))
		}
	}
	return found, nil
}

// goesWithOwner tells of a pod of a DaemonSet or Deployment: it has the labels of that one, and is deleted with it.
func goesWithOwner(kind schema.GroupVersionKind, o *metav1.PartialObjectMetadata) bool {
	return kind.Kind == "Pod" && metav1.GetControllerOf(o) != nil
}

func resourceOf(client metadataclient.Interface, kind schema.GroupVersionKind) metadataclient.Getter {
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	return client.Resource(resource)
}

func ofOurs(client metadataclient.Interface, kind schema.GroupVersionKind, o *metav1.PartialObjectMetadata) leftover {
	l := leftover{
		subject: kind.Kind + "/" + o.Name, name: o.Name, client: resourceOf(client, kind),
		only: metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &o.UID}},
	}
	if o.Namespace != "" {
		l.subject = kind.Kind + "/" + o.Namespace + "/" + o.Name
		l.client = resourceOf(client, kind).Namespace(o.Namespace)
	}
	return l
}
