package manifests

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/templates"
)

// KubeadmBootstrappers is the group of kubeadm's tokens (kubeadm's constant NodeBootstrapTokenAuthGroup).
const KubeadmBootstrappers = "system:bootstrappers:kubeadm:default-node-token"

// CloudConfigSecret returns the Secret with the provider's files, keyed by their names in the pod.
func CloudConfigSecret(p *templates.Profile, files map[string][]byte) ([]*Object, error) {
	if err := p.CheckConfig(files, ""); err != nil {
		return nil, fmt.Errorf("render Secret %s: %w", v1alpha1.CloudConfigName, err)
	}
	return toObjects(&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: objectMeta(v1alpha1.CloudConfigName),
		Type:       corev1.SecretTypeOpaque,
		Data:       files,
	})
}

// Inventory returns the ConfigMap with the list of machines, for a provider that serves those.
func Inventory(list *templates.Inventory, document []byte) ([]*Object, error) {
	return toObjects(&corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: objectMeta(list.ConfigMap),
		Data:       map[string]string{list.Key: string(document)},
	})
}

// ConfigHash changes when any of the files does. No files have no hash.
func ConfigHash(files map[string][]byte) string {
	if len(files) == 0 {
		return ""
	}
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%q %d ", name, len(files[name]))
		h.Write(files[name])
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// Record returns the ConfigMap in which machines that join find the cluster's settings, and lets them read it: with a
// bootstrap token before they have joined, as a node afterwards. kubeadm's own ConfigMap is open to the same groups.
func Record(data []byte, leaseName string) ([]*Object, error) {
	const access = v1alpha1.Prefix + "record"
	read := rbacv1.PolicyRule{
		APIGroups:     []string{""},
		Resources:     []string{"configmaps"},
		ResourceNames: []string{v1alpha1.RecordName},
		Verbs:         []string{"get"},
	}
	// A machine that joins watches its own Node until it is initialized; the Lease tells it whether anybody is at work.
	watch := rbacv1.PolicyRule{
		APIGroups:     []string{"coordination.k8s.io"},
		Resources:     []string{"leases"},
		ResourceNames: []string{leaseName},
		Verbs:         []string{"get", "list", "watch"},
	}
	// It also looks whether a Node of its own name is alive: a clone's would be (kubelets renew their Lease every 10 s).
	heartbeats := rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get"}}
	group := func(name string) rbacv1.Subject {
		return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: name}
	}
	return toObjects(
		&corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: objectMeta(v1alpha1.RecordName),
			Data:       map[string]string{v1alpha1.RecordKey: string(data)},
		},
		role(v1alpha1.Namespace, access, []rbacv1.PolicyRule{read, watch}),
		roleBinding(v1alpha1.Namespace, access, access, group(KubeadmBootstrappers), group("system:nodes")),
		role(corev1.NamespaceNodeLease, access, []rbacv1.PolicyRule{heartbeats}),
		roleBinding(corev1.NamespaceNodeLease, access, access, group(KubeadmBootstrappers)),
	)
}
