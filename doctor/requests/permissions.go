package requests

import (
	"context"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
)

// Grant is what a component needs.
type Grant struct {
	// Component is what needs it, and Without what does not work when it is missing.
	Component, Without string
	// User is its name; empty: that of the ServiceAccount of kube-system with the component's name. Group is one besides those that the
	// kind of user has.
	User, Group string
	// Permissions are VERB RESOURCE[/SUBRESOURCE][.GROUP] [NAME] [in NAMESPACE].
	Permissions []string
	// Binding is KIND/NAME or KIND/NAMESPACE/NAME of what grants them, empty: the controller's own. Role is what it binds: a Role in the
	// namespace of a RoleBinding, else a ClusterRole; empty: of the binding's name. Kubeadm says that kubeadm makes both, else kube-apiserver
	// does when it starts (kubernetes plugin/pkg/auth/authorizer/rbac/bootstrappolicy).
	Binding, Role string
	Kubeadm       bool
	// Since and Before bound the minor versions, as 36 for 1.36, that have it. 0: no bound.
	Since, Before int
	// Optional says that a cluster without the binding is a choice that kubeadm's documentation offers.
	Optional bool
	// Workload of kube-system needs it: without it nothing does. Empty: every cluster does.
	Workload string
}

const (
	accounts  = "system:serviceaccount:kube-system:"
	anonymous = "system:anonymous"
)

func (g *Grant) user() string {
	if g.User == "" {
		return accounts + g.Component
	}
	return g.User
}

func (g *Grant) groups() []string {
	user := g.user()
	if user == anonymous {
		return []string{"system:unauthenticated"}
	}
	groups := []string{"system:authenticated"}
	if strings.HasPrefix(user, accounts) {
		groups = append(groups, "system:serviceaccounts", "system:serviceaccounts:kube-system")
	}
	if g.Group != "" {
		groups = append(groups, g.Group)
	}
	return groups
}

func (g *Grant) binding() string {
	if g.Binding == "" {
		return "ClusterRoleBinding/system:controller:" + g.Component
	}
	return g.Binding
}

// parse reads a permission of the table.
func parse(permission string) *authorizationv1.ResourceAttributes {
	rest, namespace, _ := strings.Cut(permission, " in ")
	verb, rest, _ := strings.Cut(rest, " ")
	resource, name, _ := strings.Cut(rest, " ")
	resource, group, _ := strings.Cut(resource, ".")
	resource, subresource, _ := strings.Cut(resource, "/")
	return &authorizationv1.ResourceAttributes{
		Verb: verb, Group: group, Resource: resource, Subresource: subresource, Namespace: namespace, Name: name,
	}
}

// in tells whether a minor version of Kubernetes has it.
func (g *Grant) in(minor int) bool { return minor >= g.Since && (g.Before == 0 || minor < g.Before) }

// Bound tells whether a binding exists, by its KIND/NAME or KIND/NAMESPACE/NAME.
func Bound(ctx context.Context, client kubernetes.Interface, binding string) (bool, error) {
	kind, name, _ := strings.Cut(binding, "/")
	path := "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/" + name
	if namespace, inside, is := strings.Cut(name, "/"); is && kind == "RoleBinding" {
		path = "/apis/rbac.authorization.k8s.io/v1/namespaces/" + namespace + "/rolebindings/" + inside
	}
	_, err := client.Discovery().RESTClient().Get().AbsPath(path).DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// Permissions is what components of kubeadm's clusters need of the API server: not all that they are granted, but what breaks something
// when it is missing. Group of a permission stands after a point: leases.coordination.k8s.io is resource leases of group
// coordination.k8s.io.
func Permissions() []Grant {
	rows := append(joining(), running()...)
	return append(rows, controllers()...)
}

// joining is what `kubeadm join` and new kubelets ask for.
func joining() []Grant {
	const token, tokens = "system:bootstrap:doctor", "system:bootstrappers:kubeadm:default-node-token"
	const node, nodes = "system:node:doctor", "system:nodes"
	return []Grant{
		{
			Component: "kubeadm join", User: anonymous, Without: "no machine can join by a token",
			Permissions: []string{"get configmaps cluster-info in kube-public"},
			Binding:     "RoleBinding/kube-public/kubeadm:bootstrap-signer-clusterinfo", Kubeadm: true, Optional: true,
		},
		{
			Component: "kubeadm join", User: token, Group: tokens, Without: "no machine can join",
			Permissions: []string{"get configmaps kubeadm-config in kube-system"}, Binding: "RoleBinding/kube-system/kubeadm:nodes-kubeadm-config", Kubeadm: true,
		},
		{
			Component: "kubeadm join", User: token, Group: tokens, Without: "no machine can join",
			Permissions: []string{"get configmaps kubelet-config in kube-system"}, Binding: "RoleBinding/kube-system/kubeadm:kubelet-config", Kubeadm: true,
		},
		{
			Component: "kubeadm join", User: token, Group: tokens, Without: "no machine can join",
			Permissions: []string{"get nodes"}, Binding: "ClusterRoleBinding/kubeadm:get-nodes", Kubeadm: true,
		},
		{
			Component: "kubeadm join", User: token, Group: tokens, Without: "the kubelet of a new machine gets no certificate",
			Permissions: []string{"create certificatesigningrequests.certificates.k8s.io"}, Binding: "ClusterRoleBinding/kubeadm:kubelet-bootstrap", Role: "system:node-bootstrapper", Kubeadm: true,
		},
		{
			Component: "kubeadm join", User: token, Group: tokens, Without: "certificates of new machines are not approved",
			Permissions: []string{"create certificatesigningrequests/nodeclient.certificates.k8s.io"},
			Role:        "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
			Binding:     "ClusterRoleBinding/kubeadm:node-autoapprove-bootstrap", Kubeadm: true, Optional: true,
		},
		{
			Component: "kubelet", User: node, Group: nodes, Without: "kubelets do not get a new certificate before theirs ends",
			Permissions: []string{"create certificatesigningrequests/selfnodeclient.certificates.k8s.io"},
			Role:        "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
			Binding:     "ClusterRoleBinding/kubeadm:node-autoapprove-certificate-rotation", Kubeadm: true, Optional: true,
		},
		{
			Component: "kube-apiserver", User: "kube-apiserver-kubelet-client", Group: "kubeadm:cluster-admins", Before: 36,
			Without:     "no logs, exec or port-forward from any Node",
			Permissions: []string{"create nodes/proxy"}, Binding: "ClusterRoleBinding/kubeadm:cluster-admins", Role: "cluster-admin", Kubeadm: true,
		},
		{ // kubernetes cmd/kubeadm/app/phases/bootstraptoken/node: its certificate has no group any more
			Component: "kube-apiserver", User: "kube-apiserver-kubelet-client", Since: 36, Without: "no logs, exec or port-forward from any Node",
			Permissions: []string{"create nodes/proxy"}, Binding: "ClusterRoleBinding/kubeadm:apiserver-kubelet-client", Role: "system:kubelet-api-admin",
			Kubeadm: true,
		},
		{
			Component: "bootstrap-signer", Without: "cluster-info is not signed for new tokens, and no machine can join by one",
			Permissions: []string{"list secrets in kube-system"}, Binding: "RoleBinding/kube-system/system:controller:bootstrap-signer",
		},
		{
			Component: "bootstrap-signer", Without: "cluster-info is not signed for new tokens, and no machine can join by one",
			Permissions: []string{"update configmaps cluster-info in kube-public"}, Binding: "RoleBinding/kube-public/system:controller:bootstrap-signer",
		},
	}
}

// running is what addons, the scheduler and the controller manager ask for.
func running() []Grant {
	return []Grant{
		{
			Component: "kube-proxy", Workload: "kube-proxy", Without: "rules of kube-proxy do not follow Services", Binding: "ClusterRoleBinding/kubeadm:node-proxier", Role: "system:node-proxier", Kubeadm: true,
			Permissions: []string{
				"list services", "watch services", "list endpointslices.discovery.k8s.io", "watch endpointslices.discovery.k8s.io", "list nodes", "watch nodes",
			},
		},
		{
			Component: "coredns", Workload: "coredns", Without: "names of Services do not resolve", Binding: "ClusterRoleBinding/system:coredns", Kubeadm: true,
			Permissions: []string{
				"list services", "watch services", "list endpointslices.discovery.k8s.io", "watch endpointslices.discovery.k8s.io",
				"list namespaces", "watch namespaces",
			},
		},
		{
			Component: "kube-controller-manager", User: "system:kube-controller-manager", Without: "it is not the leader for longer than it runs",
			Permissions: []string{"update leases.coordination.k8s.io kube-controller-manager in kube-system"},
			Binding:     "RoleBinding/kube-system/system::leader-locking-kube-controller-manager",
		},
		{
			Component: "kube-controller-manager", User: "system:kube-controller-manager", Without: "its controllers get no token, or do not see objects",
			Permissions: []string{"create serviceaccounts/token in kube-system", "list pods", "watch deployments.apps"},
			Binding:     "ClusterRoleBinding/system:kube-controller-manager",
		},
		{
			Component: "kube-scheduler", User: "system:kube-scheduler", Without: "it is not the leader for longer than it runs",
			Permissions: []string{"update leases.coordination.k8s.io kube-scheduler in kube-system"},
			Binding:     "RoleBinding/kube-system/system::leader-locking-kube-scheduler",
		},
		{
			Component: "kube-scheduler", User: "system:kube-scheduler", Without: "no pod is placed on a Node",
			Permissions: []string{
				"list pods", "watch pods", "list nodes", "watch nodes", "create pods/binding", "list persistentvolumeclaims", "list csinodes.storage.k8s.io",
			},
			Binding: "ClusterRoleBinding/system:kube-scheduler",
		},
	}
}

// controllers is what those of kube-controller-manager ask for, each under the name of its ServiceAccount.
func controllers() []Grant {
	return []Grant{
		{
			Component: "deployment-controller", Without: "Deployments get no ReplicaSets",
			Permissions: []string{"create replicasets.apps", "watch replicasets.apps", "update deployments/status.apps"},
		},
		{
			Component: "replicaset-controller", Without: "Deployments get no pods",
			Permissions: []string{"create pods", "delete pods", "watch pods", "update replicasets/status.apps"},
		},
		{
			Component: "daemon-set-controller", Without: "DaemonSets get no pods",
			Permissions: []string{"create pods", "watch nodes", "update daemonsets/status.apps"},
		},
		{
			Component: "statefulset-controller", Without: "StatefulSets get no pods",
			Permissions: []string{"create pods", "update statefulsets/status.apps"},
		},
		{
			Component: "job-controller", Without: "Jobs get no pods",
			Permissions: []string{"create pods", "update jobs/status.batch"},
		},
		{
			Component: "endpointslice-controller", Without: "Services get no endpoints",
			Permissions: []string{
				"create endpointslices.discovery.k8s.io", "update endpointslices.discovery.k8s.io", "list services", "watch pods",
			},
		},
		{
			Component: "service-account-controller", Without: "new namespaces get no ServiceAccount, and no pod can be created in them",
			Permissions: []string{"create serviceaccounts"},
		},
		{
			Component: "root-ca-cert-publisher", Without: "pods in new namespaces do not start, for lack of ConfigMap kube-root-ca.crt",
			Permissions: []string{"create configmaps"},
		},
		{
			Component: "namespace-controller", Without: "deleted namespaces stay",
			Permissions: []string{"delete pods", "update namespaces/finalize"},
		},
		{
			Component: "generic-garbage-collector", Without: "what belongs to deleted objects stays",
			Permissions: []string{"delete pods"},
		},
		{
			Component: "certificate-controller", Without: "certificates of kubelets are not approved or issued",
			Permissions: []string{
				"update certificatesigningrequests/approval.certificates.k8s.io", "update certificatesigningrequests/status.certificates.k8s.io",
				"approve signers.certificates.k8s.io kubernetes.io/kube-apiserver-client-kubelet",
				"sign signers.certificates.k8s.io kubernetes.io/kube-apiserver-client-kubelet", "create subjectaccessreviews.authorization.k8s.io",
			},
		},
		{
			Component: "node-controller", Without: "Nodes that do not report stay Ready, and their pods are not moved",
			Permissions: []string{"update nodes/status", "patch nodes"},
		},
	}
}
