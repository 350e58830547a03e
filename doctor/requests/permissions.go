package requests

import (
	"context"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
)

// Maker is what makes a role and its binding, and makes them again.
type Maker string

// The makers.
const (
	// Server is kube-apiserver, which writes its default roles and bindings when it starts
	// (kubernetes plugin/pkg/auth/authorizer/rbac/bootstrappolicy).
	Server Maker = "kube-apiserver"
	// Tokens, Config and DNS are phases of `kubeadm init` (kubernetes cmd/kubeadm/app/phases/bootstraptoken, uploadconfig, addons/dns).
	Tokens Maker = "bootstrap-token"
	Config Maker = "upload-config all"
	DNS    Maker = "addon coredns"
	// Proxy is the phase addon kube-proxy. It would write kube-proxy's configuration as well, so a person binds the role.
	Proxy Maker = "addon kube-proxy"
	// Admin is the phase of kubeadm that binds cluster-admin to the users of admin.conf and of API servers.
	Admin Maker = "kubeconfig"
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
	// Binding is KIND/NAME or KIND/NAMESPACE/NAME of what grants them, and Maker what makes that. Empty: the controller's own.
	Binding string
	Maker   Maker
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

// deleted tells whether the binding does not exist.
func (g *Grant) deleted(ctx context.Context, client kubernetes.Interface) (bool, error) {
	kind, name, _ := strings.Cut(g.Binding, "/")
	path := "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/" + name
	if namespace, inside, is := strings.Cut(name, "/"); is && kind == "RoleBinding" {
		path = "/apis/rbac.authorization.k8s.io/v1/namespaces/" + namespace + "/rolebindings/" + inside
	}
	_, err := client.Discovery().RESTClient().Get().AbsPath(path).DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return false, err
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
			Binding:     "RoleBinding/kube-public/kubeadm:bootstrap-signer-clusterinfo", Maker: Tokens, Optional: true,
		},
		{
			Component: "kubeadm join", User: token, Group: tokens, Without: "no machine can join",
			Permissions: []string{"get configmaps kubeadm-config in kube-system"}, Binding: "RoleBinding/kube-system/kubeadm:nodes-kubeadm-config", Maker: Config,
		},
		{
			Component: "kubeadm join", User: token, Group: tokens, Without: "no machine can join",
			Permissions: []string{"get configmaps kubelet-config in kube-system"}, Binding: "RoleBinding/kube-system/kubeadm:kubelet-config", Maker: Config,
		},
		{
			Component: "kubeadm join", User: token, Group: tokens, Without: "no machine can join",
			Permissions: []string{"get nodes"}, Binding: "ClusterRoleBinding/kubeadm:get-nodes", Maker: Tokens,
		},
		{
			Component: "kubeadm join", User: token, Group: tokens, Without: "the kubelet of a new machine gets no certificate",
			Permissions: []string{"create certificatesigningrequests.certificates.k8s.io"}, Binding: "ClusterRoleBinding/kubeadm:kubelet-bootstrap", Maker: Tokens,
		},
		{
			Component: "kubeadm join", User: token, Group: tokens, Without: "certificates of new machines are not approved",
			Permissions: []string{"create certificatesigningrequests/nodeclient.certificates.k8s.io"},
			Binding:     "ClusterRoleBinding/kubeadm:node-autoapprove-bootstrap", Maker: Tokens, Optional: true,
		},
		{
			Component: "kubelet", User: node, Group: nodes, Without: "kubelets do not get a new certificate before theirs ends",
			Permissions: []string{"create certificatesigningrequests/selfnodeclient.certificates.k8s.io"},
			Binding:     "ClusterRoleBinding/kubeadm:node-autoapprove-certificate-rotation", Maker: Tokens, Optional: true,
		},
		{
			Component: "kube-apiserver", User: "kube-apiserver-kubelet-client", Group: "kubeadm:cluster-admins",
			Without:     "no logs, exec or port-forward from any Node",
			Permissions: []string{"create nodes/proxy"}, Binding: "ClusterRoleBinding/kubeadm:cluster-admins", Maker: Admin,
		},
	}
}

// running is what addons, the scheduler and the controller manager ask for.
func running() []Grant {
	return []Grant{
		{
			Component: "kube-proxy", Workload: "kube-proxy", Without: "rules of kube-proxy do not follow Services", Binding: "ClusterRoleBinding/kubeadm:node-proxier", Maker: Proxy,
			Permissions: []string{
				"list services", "watch services", "list endpointslices.discovery.k8s.io", "watch endpointslices.discovery.k8s.io", "list nodes", "watch nodes",
			},
		},
		{
			Component: "coredns", Workload: "coredns", Without: "names of Services do not resolve", Binding: "ClusterRoleBinding/system:coredns", Maker: DNS,
			Permissions: []string{
				"list services", "watch services", "list endpointslices.discovery.k8s.io", "watch endpointslices.discovery.k8s.io",
				"list namespaces", "watch namespaces",
			},
		},
		{
			Component: "kube-controller-manager", User: "system:kube-controller-manager", Without: "it is not the leader for longer than it runs",
			Permissions: []string{"update leases.coordination.k8s.io kube-controller-manager in kube-system"},
			Binding:     "RoleBinding/kube-system/system::leader-locking-kube-controller-manager", Maker: Server,
		},
		{
			Component: "kube-controller-manager", User: "system:kube-controller-manager", Without: "its controllers get no token, or do not see objects",
			Permissions: []string{"create serviceaccounts/token in kube-system", "list pods", "watch deployments.apps"},
			Binding:     "ClusterRoleBinding/system:kube-controller-manager", Maker: Server,
		},
		{
			Component: "kube-scheduler", User: "system:kube-scheduler", Without: "it is not the leader for longer than it runs",
			Permissions: []string{"update leases.coordination.k8s.io kube-scheduler in kube-system"},
			Binding:     "RoleBinding/kube-system/system::leader-locking-kube-scheduler", Maker: Server,
		},
		{
			Component: "kube-scheduler", User: "system:kube-scheduler", Without: "no pod is placed on a Node",
			Permissions: []string{
				"list pods", "watch pods", "list nodes", "watch nodes", "create pods/binding", "list persistentvolumeclaims", "list csinodes.storage.k8s.io",
			},
			Binding: "ClusterRoleBinding/system:kube-scheduler", Maker: Server,
		},
	}
}

// controllers is what those of kube-controller-manager ask for, each under the name of its ServiceAccount.
func controllers() []Grant {
	return []Grant{
		{
			Component: "deployment-controller", Without: "Deployments get no ReplicaSets", Maker: Server,
			Permissions: []string{"create replicasets.apps", "watch replicasets.apps", "update deployments/status.apps"},
		},
		{
			Component: "replicaset-controller", Without: "Deployments get no pods", Maker: Server,
			Permissions: []string{"create pods", "delete pods", "watch pods", "update replicasets/status.apps"},
		},
		{
			Component: "daemon-set-controller", Without: "DaemonSets get no pods", Maker: Server,
			Permissions: []string{"create pods", "watch nodes", "update daemonsets/status.apps"},
		},
		{
			Component: "statefulset-controller", Without: "StatefulSets get no pods", Maker: Server,
			Permissions: []string{"create pods", "update statefulsets/status.apps"},
		},
		{
			Component: "job-controller", Without: "Jobs get no pods", Maker: Server,
			Permissions: []string{"create pods", "update jobs/status.batch"},
		},
		{
			Component: "endpointslice-controller", Without: "Services get no endpoints", Maker: Server,
			Permissions: []string{
				"create endpointslices.discovery.k8s.io", "update endpointslices.discovery.k8s.io", "list services", "watch pods",
			},
		},
		{
			Component: "service-account-controller", Without: "new namespaces get no ServiceAccount, and no pod can be created in them", Maker: Server,
			Permissions: []string{"create serviceaccounts"},
		},
		{
			Component: "root-ca-cert-publisher", Without: "pods in new namespaces do not start, for lack of ConfigMap kube-root-ca.crt", Maker: Server,
			Permissions: []string{"create configmaps"},
		},
		{
			Component: "namespace-controller", Without: "deleted namespaces stay", Maker: Server,
			Permissions: []string{"delete pods", "update namespaces/finalize"},
		},
		{
			Component: "generic-garbage-collector", Without: "what belongs to deleted objects stays", Maker: Server,
			Permissions: []string{"delete pods"},
		},
		{
			Component: "certificate-controller", Without: "certificates of kubelets are not approved or issued", Maker: Server,
			Permissions: []string{
				"update certificatesigningrequests/approval.certificates.k8s.io", "update certificatesigningrequests/status.certificates.k8s.io",
				"approve signers.certificates.k8s.io kubernetes.io/kube-apiserver-client-kubelet",
				"sign signers.certificates.k8s.io kubernetes.io/kube-apiserver-client-kubelet", "create subjectaccessreviews.authorization.k8s.io",
			},
		},
		{
			Component: "node-controller", Without: "Nodes that do not report stay Ready, and their pods are not moved", Maker: Server,
			Permissions: []string{"update nodes/status", "patch nodes"},
		},
		{
			Component: "bootstrap-signer", Without: "cluster-info is not signed for new tokens, and no machine can join by one", Maker: Server,
			Permissions: []string{"list secrets in kube-system"}, Binding: "RoleBinding/kube-system/system:controller:bootstrap-signer",
		},
		{
			Component: "bootstrap-signer", Without: "cluster-info is not signed for new tokens, and no machine can join by one", Maker: Server,
			Permissions: []string{"update configmaps cluster-info in kube-public"}, Binding: "RoleBinding/kube-public/system:controller:bootstrap-signer",
		},
	}
}
