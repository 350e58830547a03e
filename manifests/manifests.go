// Package manifests renders the objects of a cloud-controller-manager from a provider's profile, makes a cluster agree
// with them, and tells how far its nodes have come.
//
// Start at [StaticPod], [Addon] and [RBAC] for what is rendered, at [Applier] for how it gets into the cluster, at
// [Wait] and [Status] for what becomes of it. The parts of the pods that are the same for every provider are the
// .yaml files beside this one.
//
// Reads: a profile and its values; Nodes, the Lease and the pods of the cloud-controller-manager.
// Writes: objects of kube-system and cluster-wide RBAC, by server-side apply as field manager "ccmadm", and the
// ConfigMap ccmadm-inventory that lists them. Only what drifted is written: a second run changes nothing. A field that
// somebody else has taken over is a [ConflictError], not overwritten, unless force was asked for. Nothing is deleted
// that is not in the inventory and labelled as ours.
package manifests

import (
	"embed"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/templates"
)

// Names in the cluster and on a machine. They are a contract: other versions of ccmadm look for them.
const (
	FieldManager    = "ccmadm"
	Namespace       = metav1.NamespaceSystem
	RecordName      = "ccmadm-config"
	RecordKey       = "record.yaml"
	CloudConfigName = "ccmadm-cloud-config"
	InventoryName   = "ccmadm-inventory"
	LeaseName       = templates.DefaultLease
	// StaticPodUser is the name in the client certificate of a static pod.
	StaticPodUser = "system:cloud-controller-manager"

	// From k8s.io/cloud-provider/api, whose other packages would come with it.
	uninitializedTaint       = "node.cloudprovider.kubernetes.io/uninitialized"
	providedNodeIPAnnotation = "alpha.kubernetes.io/provided-node-ip"

	managedByLabel = "app.kubernetes.io/managed-by"
	nameLabel      = "app.kubernetes.io/name"
	componentLabel = "component"
	component      = "cloud-controller-manager"
	hashAnnotation = "ccmadm.dev/config-hash"
	prefix         = "ccmadm:"
)

//go:embed *.yaml
var files embed.FS

// Object is what the API server stores.
type Object = unstructured.Unstructured

// load decodes an embedded file over what into already has. An error is a mistake in the file, found by any test.
func load(name string, into any) error {
	data, err := files.ReadFile(name)
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(data, into); err != nil {
		return fmt.Errorf("decode %s: %w", name, err)
	}
	return nil
}

// toObject returns what server-side apply shall send: without the status, which is not ours to own.
func toObject(typed metav1.Object) (*Object, error) {
	labels := typed.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[managedByLabel] = FieldManager
	typed.SetLabels(labels)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, fmt.Errorf("convert %s: %w", typed.GetName(), err)
	}
	delete(content, "status")
	return &Object{Object: content}, nil
}

func toObjects(typed ...metav1.Object) ([]*Object, error) {
	var list []*Object
	for _, t := range typed {
		o, err := toObject(t)
		if err != nil {
			return nil, err
		}
		list = append(list, o)
	}
	return list, nil
}

func objectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: Namespace}
}
