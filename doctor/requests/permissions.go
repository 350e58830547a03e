package requests

import (
	"context"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// Row is a permission that a component needs.
type Row struct {
	// Component is what needs it, and Without what does not work when it is missing.
	Component, Without string
	User               string
	Groups             []string
	// Verb and so on are of one rule. Name is empty for all objects.
	Verb, Group, Resource, Subresource, Namespace, Name string
	// Binding is KIND/NAME or KIND/NAMESPACE/NAME of what grants it, and Maker what makes that.
	Binding string
	Maker   Maker
	// Optional says that a cluster without the binding is a choice that kubeadm's documentation offers.
	Optional bool
	// Workload of kube-system has the permission: without it nothing needs it. Empty: every cluster does.
	Workload string
}

func (r *Row) attributes() *authorizationv1.ResourceAttributes {
	return &authorizationv1.ResourceAttributes{
		Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name,
	}
}

func (r *Row) permission() string {
	text := r.Verb + " " + r.Resource
	if r.Subresource != "" {
		text += "/" + r.Subresource
	}
	if r.Group != "" {
		text += "." + r.Group
	}
	if r.Name != "" {
		text += " " + r.Name
	}
	if r.Namespace != "" {
		text += " in namespace " + r.Namespace
	}
	return text
}

// deleted tells whether the binding does not exist.
func (r *Row) deleted(ctx context.Context, client kubernetes.Interface) (bool, error) {
	kind, name, _ := strings.Cut(r.Binding, "/")
	namespace, inside, namespaced := strings.Cut(name, "/")
	var err error
	if kind == "RoleBinding" && namespaced {
		_, err = client.RbacV1().RoleBindings(namespace).Get(ctx, inside, metav1.GetOptions{})
	} else {
		_, err = client.RbacV1().ClusterRoleBindings().Get(ctx, name, metav1.GetOptions{})
	}
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return false, err
}

const (
	apps        = "apps"
	rbacLeases  = "coordination.k8s.io"
	slicesGroup = "discovery.k8s.io"
	requesting  = "certificates.k8s.io"
	system      = "kube-system"
	public      = "kube-public"
)

// Permissions is what components of kubeadm's clusters need of the API server: not all that they are granted, but what breaks something
// when it is missing.
func Permissions() []Row {
	rows := append(joining(), addons()...)
	rows = append(rows, controlPlane()...)
	return append(rows, controllers()...)
}

// joining is what `kubeadm join` and new kubelets ask for.
func joining() []Row {
	token := Row{User: "system:bootstrap:doctor", Groups: []string{"system:bootstrappers", "system:bootstrappers:kubeadm:default-node-token", "system:authenticated"}}
	node := Row{User: "system:node:doctor", Groups: []string{"system:nodes", "system:authenticated"}}
	anybody := Row{User: "system:anonymous", Groups: []string{"system:unauthenticated"}}
	const join, binding, role = "kubeadm join", "ClusterRoleBinding/", "RoleBinding/"
	of := func(r Row, component, without, verb, group, resource, sub, namespace, name, bound string, maker Maker, optional bool) Row {
		r.Component, r.Without, r.Verb, r.Group, r.Resource, r.Subresource = component, without, verb, group, resource, sub
		r.Namespace, r.Name, r.Binding, r.Maker, r.Optional = namespace, name, bound, maker, optional
		return r
	}
	return []Row{
		of(anybody, join, "no machine can join by a token", "get", "", "configmaps", "", public, "cluster-info",
			role+public+"/kubeadm:bootstrap-signer-clusterinfo", Tokens, true),
		of(token, join, "no machine can join", "get", "", "configmaps", "", system, "kubeadm-config", role+system+"/kubeadm:nodes-kubeadm-config", Config, false),
		of(token, join, "no machine can join", "get", "", "configmaps", "", system, "kubelet-config", role+system+"/kubeadm:kubelet-config", Config, false),
		of(token, join, "no machine can join", "get", "", "nodes", "", "", "", binding+"kubeadm:get-nodes", Tokens, false),
		of(token, join, "the kubelet of a new machine gets no certificate", "create", requesting, "certificatesigningrequests", "", "", "",
			binding+"kubeadm:kubelet-bootstrap", Tokens, false),
		of(token, join, "certificates of new machines are not approved", "create", requesting, "certificatesigningrequests", "nodeclient", "", "",
			binding+"kubeadm:node-autoapprove-bootstrap", Tokens, true),
		of(node, "kubelet", "kubelets do not get a new certificate before theirs ends", "create", requesting, "certificatesigningrequests", "selfnodeclient", "", "",
			binding+"kubeadm:node-autoapprove-certificate-rotation", Tokens, true),
		of(Row{User: "kube-apiserver-kubelet-client", Groups: []string{"kubeadm:cluster-admins", "system:authenticated"}}, "kube-apiserver",
			"no logs, exec or port-forward from any Node", "create", "", "nodes", "proxy", "", "", binding+"kubeadm:cluster-admins", Admin, false),
	}
}

// account is a ServiceAccount of kube-system.
func account(name string) Row {
	return Row{
		User:   "system:serviceaccount:" + system + ":" + name,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + system, "system:authenticated"},
	}
}

// addons is what kube-proxy and CoreDNS watch.
func addons() []Row {
	var rows []Row
	of := func(workload, account, without, binding string, maker Maker, list ...Row) {
		for _, r := range list {
			for _, verb := range []string{"list", "watch"} {
				r.Component, r.Workload, r.Without, r.Binding, r.Maker, r.Verb = workload, workload, without, binding, maker, verb
				r.User = "system:serviceaccount:" + system + ":" + account
				r.Groups = []string{"system:serviceaccounts", "system:serviceaccounts:" + system, "system:authenticated"}
				rows = append(rows, r)
			}
		}
	}
	services, slices := Row{Resource: "services"}, Row{Group: slicesGroup, Resource: "endpointslices"}
	of("kube-proxy", "kube-proxy", "rules of kube-proxy do not follow Services", "ClusterRoleBinding/kubeadm:node-proxier", Proxy,
		services, slices, Row{Resource: "nodes"})
	of("coredns", "coredns", "names of Services do not resolve", "ClusterRoleBinding/system:coredns", DNS,
		services, slices, Row{Resource: "namespaces"})
	return rows
}

// controlPlane is what the controller manager and the scheduler ask for under their own names.
func controlPlane() []Row {
	manager := Row{
		Component: "kube-controller-manager", User: "system:kube-controller-manager", Groups: []string{"system:authenticated"}, Maker: Server,
		Binding: "ClusterRoleBinding/system:kube-controller-manager",
	}
	scheduler := Row{
		Component: "kube-scheduler", User: "system:kube-scheduler", Groups: []string{"system:authenticated"}, Maker: Server,
		Binding: "ClusterRoleBinding/system:kube-scheduler", Without: "no pod is placed on a Node",
	}
	of := func(r Row, without, verb, group, resource, sub, namespace, name string) Row {
		if without != "" {
			r.Without = without
		}
		r.Verb, r.Group, r.Resource, r.Subresource, r.Namespace, r.Name = verb, group, resource, sub, namespace, name
		return r
	}
	const unled = "it is the leader for no longer than it runs, and controls nothing after its next start"
	managerLease := of(manager, unled, "update", rbacLeases, "leases", "", system, "kube-controller-manager")
	schedulerLease := of(scheduler, unled, "update", rbacLeases, "leases", "", system, "kube-scheduler")
	managerLease.Binding = "RoleBinding/" + system + "/system::leader-locking-kube-controller-manager or ClusterRoleBinding/system:kube-controller-manager"
	schedulerLease.Binding = "RoleBinding/" + system + "/system::leader-locking-kube-scheduler or ClusterRoleBinding/system:kube-scheduler"
	return []Row{
		managerLease,
		of(manager, "its controllers do not get a token", "create", "", "serviceaccounts", "token", system, ""),
		of(manager, "its controllers do not see objects", "list", "", "pods", "", "", ""),
		of(manager, "its controllers do not see objects", "watch", apps, "deployments", "", "", ""),
		schedulerLease,
		of(scheduler, "", "list", "", "pods", "", "", ""),
		of(scheduler, "", "watch", "", "pods", "", "", ""),
		of(scheduler, "", "list", "", "nodes", "", "", ""),
		of(scheduler, "", "watch", "", "nodes", "", "", ""),
		of(scheduler, "", "create", "", "pods", "binding", "", ""),
		of(scheduler, "", "list", "", "persistentvolumeclaims", "", "", ""),
		of(scheduler, "", "list", "storage.k8s.io", "csinodes", "", "", ""),
	}
}

// controllers is what those of kube-controller-manager ask for, each under the name of its ServiceAccount.
func controllers() []Row {
	var rows []Row
	of := func(name, without string, list ...Row) {
		for _, r := range list {
			who := account(name)
			r.User, r.Groups = who.User, who.Groups
			r.Component, r.Without, r.Maker, r.Binding = name, without, Server, "ClusterRoleBinding/system:controller:"+name
			rows = append(rows, r)
		}
	}
	createPods := Row{Verb: "create", Resource: "pods"}
	of("deployment-controller", "Deployments get no ReplicaSets", Row{Verb: "create", Group: apps, Resource: "replicasets"},
		Row{Verb: "update", Group: apps, Resource: "deployments", Subresource: "status"}, Row{Verb: "watch", Group: apps, Resource: "replicasets"})
	of("replicaset-controller", "Deployments get no pods", createPods, Row{Verb: "update", Group: apps, Resource: "replicasets", Subresource: "status"},
		Row{Verb: "delete", Resource: "pods"}, Row{Verb: "watch", Resource: "pods"})
	of("daemon-set-controller", "DaemonSets get no pods", createPods, Row{Verb: "update", Group: apps, Resource: "daemonsets", Subresource: "status"},
		Row{Verb: "watch", Resource: "nodes"})
	of("statefulset-controller", "StatefulSets get no pods", createPods, Row{Verb: "update", Group: apps, Resource: "statefulsets", Subresource: "status"})
	of("job-controller", "Jobs get no pods", createPods, Row{Verb: "update", Group: "batch", Resource: "jobs", Subresource: "status"})
	of("endpointslice-controller", "Services get no endpoints", Row{Verb: "create", Group: slicesGroup, Resource: "endpointslices"},
		Row{Verb: "update", Group: slicesGroup, Resource: "endpointslices"}, Row{Verb: "list", Resource: "services"}, Row{Verb: "watch", Resource: "pods"})
	of("service-account-controller", "new namespaces get no ServiceAccount, and no pod can be made in them", Row{Verb: "create", Resource: "serviceaccounts"})
	of("root-ca-cert-publisher", "pods in new namespaces do not start, for lack of ConfigMap kube-root-ca.crt", Row{Verb: "create", Resource: "configmaps"})
	of("namespace-controller", "deleted namespaces stay", Row{Verb: "delete", Resource: "pods"}, Row{Verb: "update", Resource: "namespaces", Subresource: "finalize"})
	of("generic-garbage-collector", "what belongs to deleted objects stays", Row{Verb: "delete", Resource: "pods"})
	of("certificate-controller", "certificates of kubelets are not approved or issued",
		Row{Verb: "update", Group: requesting, Resource: "certificatesigningrequests", Subresource: "approval"},
		Row{Verb: "update", Group: requesting, Resource: "certificatesigningrequests", Subresource: "status"},
		Row{Verb: "approve", Group: requesting, Resource: "signers", Name: "kubernetes.io/kube-apiserver-client-kubelet"},
		Row{Verb: "sign", Group: requesting, Resource: "signers", Name: "kubernetes.io/kube-apiserver-client-kubelet"},
		Row{Verb: "create", Group: "authorization.k8s.io", Resource: "subjectaccessreviews"})
	of("node-controller", "Nodes that do not report stay Ready, and their pods are not moved", Row{Verb: "update", Resource: "nodes", Subresource: "status"},
		Row{Verb: "patch", Resource: "nodes"}, Row{Verb: "list", Group: rbacLeases, Resource: "leases"})
	signer := account("bootstrap-signer")
	const without = "cluster-info is not signed for new tokens, and no machine can join by one"
	return append(rows,
		Row{
			Component: "bootstrap-signer", User: signer.User, Groups: signer.Groups, Verb: "list", Resource: "secrets", Namespace: system,
			Binding: "RoleBinding/" + system + "/system:controller:bootstrap-signer", Maker: Server, Without: without,
		},
		Row{
			Component: "bootstrap-signer", User: signer.User, Groups: signer.Groups, Verb: "update", Resource: "configmaps", Namespace: public,
			Name: "cluster-info", Binding: "RoleBinding/" + public + "/system:controller:bootstrap-signer", Maker: Server, Without: without,
		},
	)
}
