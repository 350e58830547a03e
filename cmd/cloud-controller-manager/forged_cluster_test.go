package main

import (
	"context"
	"fmt"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// kubeadmConfig is what kubeadm records of a cluster that is reached by several names.
const kubeadmConfig = `apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
controlPlaneEndpoint: api.nodes.example:6443
apiServer:
  certSANs: [spare.nodes.example, "*.api.nodes.example", 198.18.5.210]
  extraArgs: [{name: oidc-issuer-url, value: "https://oidc.nodes.example/realms/x"}]
etcd: {external: {endpoints: ["https://etcd.nodes.example:2379"]}}
`

// clusterInfo is how those that join reach the API server: a VIP.
const clusterInfo = `apiVersion: v1
kind: Config
clusters: [{name: "", cluster: {server: "https://198.18.5.209:6443"}}]
`

// cluster makes what names and addresses are reserved for, until the test ends.
func (tr *trial) cluster() {
	tr.Helper()
	core, none := tr.admin.CoreV1(), metav1.CreateOptions{}
	webhook := admissionv1.ValidatingWebhook{
		Name: "hook.nodes.example", AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionv1.SideEffectClassNone),
		ClientConfig: admissionv1.WebhookClientConfig{URL: new("https://hook.nodes.example/")},
	}
	config := func(name, key, value string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{key: value}}
	}
	meta := metav1.ObjectMeta{Name: "vault"}
	for _, make := range []func(context.Context) error{
		func(ctx context.Context) error {
			_, err := core.Services("default").Create(ctx, &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
				Ports: []corev1.ServicePort{{Port: 443}},
			}}, none)
			return err
		},
		func(ctx context.Context) error {
			_, err := tr.admin.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx,
				&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionv1.ValidatingWebhook{webhook}}, none)
			return err
		},
		func(ctx context.Context) error {
			_, err := core.ConfigMaps("kube-system").Create(ctx, config("kubeadm-config", "ClusterConfiguration", kubeadmConfig), none)
			return err
		},
		func(ctx context.Context) error {
			_, err := core.ConfigMaps("kube-public").Create(ctx, config("cluster-info", "kubeconfig", clusterInfo), none)
			return err
		},
	} {
		if err := make(tr.Context()); err != nil {
			tr.Fatal(err)
		}
	}
	tr.Cleanup(func() {
		ctx, now := context.WithoutCancel(tr.Context()), metav1.DeleteOptions{}
		_ = core.Services("default").Delete(ctx, "vault", now)
		_ = tr.admin.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(ctx, "vault", now)
		_ = core.ConfigMaps("kube-system").Delete(ctx, "kubeadm-config", now)
		_ = core.ConfigMaps("kube-public").Delete(ctx, "cluster-info", now)
	})
}

// bootstrapToken is what kubeadm makes for those that join, and what the API server takes them for.
func bootstrapToken(t *testing.T, admin *kubernetes.Clientset) *rest.Config {
	t.Helper()
	const id, secret, group = "abcdef", "0123456789abcdef", "system:bootstrappers:kubeadm:default-node-token"
	name := "bootstrap-token-" + id
	if _, err := admin.CoreV1().Secrets("kube-system").Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Type: corev1.SecretTypeBootstrapToken, StringData: map[string]string{
			"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true", "auth-extra-groups": group,
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node-bootstrapper"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_ = admin.CoreV1().Secrets("kube-system").Delete(ctx, name, metav1.DeleteOptions{})
		_ = admin.RbacV1().ClusterRoleBindings().Delete(ctx, name, metav1.DeleteOptions{})
	})
	config := rest.AnonymousClientConfig(plane.Config)
	config.BearerToken = id + "." + secret
	eventually(t, "the token is good", func(ctx context.Context) error {
		if _, err := client(t, config).CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
			return fmt.Errorf("it is not: %w", err)
		}
		return nil
	})
	return config
}
