package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AddressPoolKind is the kind of the object with addresses for Services of type LoadBalancer.
const AddressPoolKind = "AddressPool"

// ExcludePolicy is the effect of the label node.kubernetes.io/exclude-from-external-load-balancers, which kubeadm
// gives to control planes.
type ExcludePolicy string

// ExcludeAuto honours the label unless no Node would be left, and notes that on the Service.
const (
	ExcludeAuto   ExcludePolicy = "Auto"
	ExcludeHonour ExcludePolicy = "Honour"
	ExcludeIgnore ExcludePolicy = "Ignore"
)

// AddressPool has addresses that Services of type LoadBalancer may get:
//
//	apiVersion: ccmadm.dev/v1alpha1
//	kind: AddressPool
//	metadata: {name: lan}
//	spec: {ranges: [192.0.2.50-192.0.2.99, "2001:db8:5::/112"]}
//
// An edit never moves an address that a Service has.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ranges",type=string,JSONPath=`.spec.ranges`
// +kubebuilder:printcolumn:name="Level",type=string,JSONPath=`.spec.level`
// +kubebuilder:printcolumn:name="Assigned",type=integer,JSONPath=`.status.assigned`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.available`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Prefix",type=string,priority=1,JSONPath=`.status.dynamicPrefix.prefix`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type AddressPool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Spec is what the operator wants.
	Spec AddressPoolSpec `json:"spec"`
	// Status is what the cloud-controller-manager sees.
	// +optional
	Status AddressPoolStatus `json:"status,omitzero"`
}

// AddressPoolSpec is what the operator wants of an AddressPool.
//
// +kubebuilder:validation:XValidation:rule="!has(self.hook) || self.level == 'L2'",message="hook needs level: L2"
// +kubebuilder:validation:XValidation:rule="has(self.ranges) || has(self.dynamicPrefix)",message="ranges or dynamicPrefix is required"
// +kubebuilder:validation:XValidation:rule="!has(self.dynamicPrefix) || !has(self.ipam)",message="dynamicPrefix and ipam exclude each other: use two pools"
type AddressPoolSpec struct {
	// Ranges are CIDRs, single addresses, or FIRST-LAST; IPv4 and IPv6 may be mixed. Required without dynamicPrefix.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=96
	// +kubebuilder:validation:XValidation:rule="self.all(r, isCIDR(r) || isIP(r) || (r.contains('-') && r.split('-').size() == 2 && isIP(r.split('-')[0]) && isIP(r.split('-')[1]) && ip(r.split('-')[0]).family() == ip(r.split('-')[1]).family()))",message="must be CIDR, ADDRESS or FIRST-LAST of one family"
	// +listType=atomic
	// +optional
	Ranges []string `json:"ranges,omitempty"`
	// DynamicPrefix is for IPv6 addresses whose first bits change, as with a prefix that a provider delegates by DHCPv6-PD. Services keep
	// their host part. Default: none.
	// +optional
	DynamicPrefix *PoolDynamicPrefix `json:"dynamicPrefix,omitempty"`
	// Exclude are addresses in the same forms that are never given.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=96
	// +kubebuilder:validation:XValidation:rule="self.all(r, isCIDR(r) || isIP(r) || (r.contains('-') && r.split('-').size() == 2 && isIP(r.split('-')[0]) && isIP(r.split('-')[1]) && ip(r.split('-')[0]).family() == ip(r.split('-')[1]).family()))",message="must be CIDR, ADDRESS or FIRST-LAST of one family"
	// +listType=atomic
	// +optional
	Exclude []string `json:"exclude,omitempty"`
	// AvoidEnds leaves out the first and the last address of an IPv4 CIDR, which some devices drop. Default: true.
	// +optional
	AvoidEnds *bool `json:"avoidEnds,omitempty"`
	// AutoAssign is for Services that name no pool and no address. Default: true.
	// +optional
	AutoAssign *bool `json:"autoAssign,omitempty"`
	// Disabled stops the pool from assigning new addresses. Assigned addresses stay.
	// +optional
	Disabled bool `json:"disabled,omitempty"`
	// Priority orders pools, the highest first; equal ones by name.
	// +optional
	Priority int32 `json:"priority,omitempty"`
	// Serve limits which Services get addresses from here.
	// +optional
	Serve PoolServe `json:"serve,omitzero"`
	// Level is Auto, L2 or BGP. Default: Auto, which is BGP for addresses that are given while a BGPPeer exists, and L2
	// for others.
	// +kubebuilder:validation:Enum=Auto;L2;BGP
	// +kubebuilder:default=Auto
	// +optional
	Level Level `json:"level,omitempty"`
	// Interfaces are those on which L2 answers. Default: the one with a subnet that holds the address, the longest first;
	// a Node without one does not answer. A named one answers for addresses of any subnet.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Interfaces []string `json:"interfaces,omitempty"`
	// Nodes limits which Nodes announce.
	// +optional
	Nodes *metav1.LabelSelector `json:"nodes,omitempty"`
	// PreferredNodes announce at level L2 before others.
	// +optional
	PreferredNodes PoolPreferredNodes `json:"preferredNodes,omitzero"`
	// ExcludeLabel is Auto, Honour or Ignore. Default: Auto.
	// +kubebuilder:validation:Enum=Auto;Honour;Ignore
	// +kubebuilder:default=Auto
	// +optional
	ExcludeLabel ExcludePolicy `json:"excludeLabel,omitempty"`
	// ReuseAfter is how long a released address is kept for the Service that had it. Default: 60s.
	// +kubebuilder:default="60s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('24h')",message="must be between 0s and 24h"
	// +optional
	ReuseAfter metav1.Duration `json:"reuseAfter,omitzero"`
	// DuplicateAddressDetection asks the network before an address is used for the first time. Default: true.
	// +optional
	DuplicateAddressDetection *bool `json:"duplicateAddressDetection,omitempty"`
	// BGP is for addresses that are announced so.
	// +optional
	BGP PoolBGP `json:"bgp,omitzero"`
	// Hook is called by the agent that becomes the owner of an address at level L2, for providers that route an address to the machine
	// that their API names. Default: none.
	// +optional
	Hook *PoolHook `json:"hook,omitempty"`
	// IPAM is asked which address a Service gets. Ranges limit what it may answer. Default: none, and the cloud-controller-manager
	// chooses.
	// +optional
	IPAM *PoolIPAM `json:"ipam,omitempty"`
}

// PoolDynamicPrefix completes host parts to IPv6 addresses. The first bits are those of the global addresses that the agents of more than
// half of the Nodes report, of those that may announce addresses of the pool. If interfaces is set, only addresses on these count.
//
// The rule has a length of its own for each usual one, and a shorter one for others: with the text of a number the API server's estimate of its
// cost has no limit. The pool's condition has the rest.
//
// +kubebuilder:validation:XValidation:rule="self.hosts.all(h, isCIDR(h) ? cidr(self.length >= 112 ? '::/112' : self.length >= 96 ? '::/96' : self.length >= 80 ? '::/80' : self.length >= 64 ? '::/64' : self.length >= 60 ? '::/60' : self.length >= 56 ? '::/56' : self.length >= 48 ? '::/48' : self.length >= 32 ? '::/32' : '::/16').containsCIDR(h) : h.split('-').all(a, !isIP(a) || cidr(self.length >= 112 ? '::/112' : self.length >= 96 ? '::/96' : self.length >= 80 ? '::/80' : self.length >= 64 ? '::/64' : self.length >= 60 ? '::/60' : self.length >= 56 ? '::/56' : self.length >= 48 ? '::/48' : self.length >= 32 ? '::/32' : '::/16').containsIP(a)))",message="hosts must be host parts: their first bits, as many as length says, are zero"
type PoolDynamicPrefix struct {
	// Length is how many bits the prefix has. Default: 64, a subnet.
	// +kubebuilder:default=64
	// +kubebuilder:validation:Minimum=16
	// +kubebuilder:validation:Maximum=120
	// +optional
	Length int32 `json:"length,omitempty"`
	// Hosts are CIDRs, single addresses, or FIRST-LAST with zeros in place of the prefix, as ::f000:0-::f000:ff.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=96
	// +kubebuilder:validation:XValidation:rule="self.all(r, isCIDR(r) && cidr(r).ip().family() == 6 || isIP(r) && ip(r).family() == 6 || r.contains('-') && r.split('-').size() == 2 && r.split('-').all(a, isIP(a) && ip(a).family() == 6))",message="must be CIDR, ADDRESS or FIRST-LAST of IPv6"
	// +listType=atomic
	Hosts []string `json:"hosts"`
}

// PoolPrefix is the prefix that an AddressPool has.
type PoolPrefix struct {
	// Prefix is a CIDR.
	Prefix string `json:"prefix"`
	// Since is when it became this one.
	Since metav1.Time `json:"since"`
}

// PoolHook is an HTTP endpoint that moves addresses of a pool to the Node that owns them. An agent sends PUT with a JSON object when it
// becomes the owner, and repeats it. The address is announced whatever the endpoint answers.
//
// +kubebuilder:validation:XValidation:rule="!self.url.startsWith('https:') || has(self.ca)",message="an https URL needs ca"
type PoolHook struct {
	// URL is https. http is allowed for 127.0.0.1 and [::1], the machine of the agent.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="isURL(self) && (url(self).getScheme() == 'https' && url(self).getHostname() != '' || url(self).getScheme() == 'http' && url(self).getHostname() in ['127.0.0.1', '::1'])",message="must be https://HOST/PATH, or http:// with host 127.0.0.1 or [::1]"
	// +kubebuilder:validation:XValidation:rule="!self.matches('[@?#]')",message="must have no user, query or fragment: credentials belong into the Secret of tokenKey"
	URL string `json:"url"`
	// CA has the certificates that sign that of the endpoint, as PEM. An https URL needs it: the agent's image has no authorities.
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	CA string `json:"ca,omitempty"`
	// TokenKey is the key of Secret kube-system/ccmadm-hooks that holds the bearer token of the endpoint. Default: no token is sent.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	// +optional
	TokenKey string `json:"tokenKey,omitempty"`
	// Timeout is that of one call. Default: 10s.
	// +kubebuilder:default="10s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('60s')",message="must be between 1s and 60s"
	// +optional
	Timeout metav1.Duration `json:"timeout,omitzero"`
	// RepeatAfter is how long after a call that succeeded the owner calls again, in case the provider has lost the route. Default: 5m.
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10s') && duration(self) <= duration('24h')",message="must be between 10s and 24h"
	// +optional
	RepeatAfter metav1.Duration `json:"repeatAfter,omitzero"`
}

// PoolIPAM is an HTTP endpoint that gives addresses of a pool. The cloud-controller-manager sends PUT for a Service that is to have an
// address, and DELETE when the address is free again. An address that a Service has stays, whatever the endpoint answers.
//
// +kubebuilder:validation:XValidation:rule="!self.url.startsWith('https:') || has(self.ca)",message="an https URL needs ca"
type PoolIPAM struct {
	// URL is https. http is allowed for 127.0.0.1 and [::1], the machine of the cloud-controller-manager. CLUSTER/POOL/UID/FAMILY is
	// added to it.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="isURL(self) && (url(self).getScheme() == 'https' && url(self).getHostname() != '' || url(self).getScheme() == 'http' && url(self).getHostname() in ['127.0.0.1', '::1'])",message="must be https://HOST/PATH, or http:// with host 127.0.0.1 or [::1]"
	// +kubebuilder:validation:XValidation:rule="!self.matches('[@?#]')",message="must have no user, query or fragment: credentials belong into the Secret of tokenKey"
	URL string `json:"url"`
	// CA has the certificates that sign that of the endpoint, as PEM. An https URL needs it: authorities of an image are not used.
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	CA string `json:"ca,omitempty"`
	// TokenKey is the key of Secret kube-system/ccmadm-ipam that holds the bearer token of the endpoint. Default: no token is sent.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	// +optional
	TokenKey string `json:"tokenKey,omitempty"`
	// Timeout is that of one call. Default: 10s.
	// +kubebuilder:default="10s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('60s')",message="must be between 1s and 60s"
	// +optional
	Timeout metav1.Duration `json:"timeout,omitzero"`
	// RenewAfter is how long after an answer the same address is asked for again. Default: 5m.
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10s') && duration(self) <= duration('24h')",message="must be between 10s and 24h"
	// +optional
	RenewAfter metav1.Duration `json:"renewAfter,omitzero"`
}

// PoolServe limits which Services get addresses of a pool. An empty field limits nothing.
type PoolServe struct {
	// Namespaces by name.
	// +kubebuilder:validation:MaxItems=256
	// +listType=set
	// +optional
	Namespaces []string `json:"namespaces,omitempty"`
	// NamespaceSelector by their labels; with names, either is enough.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// ServiceSelector by labels of the Service, in addition.
	// +optional
	ServiceSelector *metav1.LabelSelector `json:"serviceSelector,omitempty"`
}

// PoolPreferredNodes are Nodes that announce addresses of a pool at level L2 while one of them may: others announce only when none of
// them does. The field nodes limits which Nodes may announce.
type PoolPreferredNodes struct {
	// Selector by labels of Nodes. Default: none is preferred, and an address stays where it is.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// ReturnAfter is how long a preferred Node could announce an address without a gap, as other agents see it, before the address
	// moves back to it. Default: 60s.
	// +kubebuilder:default="60s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('24h')",message="must be between 0s and 24h"
	// +optional
	ReturnAfter metav1.Duration `json:"returnAfter,omitzero"`
}

// PoolBGP is how addresses of a pool are announced by BGP.
type PoolBGP struct {
	// Communities are ASN:VALUE, of 16 bits each, or ASN:VALUE:VALUE, of 32, for large ones.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=32
	// +kubebuilder:validation:items:Pattern=`^[0-9]{1,10}(:[0-9]{1,10}){1,2}$`
	// +kubebuilder:validation:XValidation:rule="self.all(c, c.split(':').all(n, int(n) <= (c.split(':').size() == 2 ? 65535 : 4294967295)))",message="must be ASN:VALUE of 16 bits each, or ASN:VALUE:VALUE of 32"
	// +listType=set
	// +optional
	Communities []string `json:"communities,omitempty"`
	// LocalPref is for peers of the same ASN. Default: 100.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	// +optional
	LocalPref *int64 `json:"localPref,omitempty"`
}

// AddressPoolStatus is what the cloud-controller-manager sees of an AddressPool.
type AddressPoolStatus struct {
	// Assigned is how many addresses Services have, those in quarantine not counted.
	Assigned int32 `json:"assigned"`
	// Quarantined is how many are kept for the Services that had them.
	Quarantined int32 `json:"quarantined"`
	// Available is how many are left, as a decimal number: IPv6 has more than an integer holds.
	Available string `json:"available,omitempty"`
	// ObservedGeneration is the one that all this is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// DynamicPrefix is the prefix that completes the host parts of spec.dynamicPrefix. Services follow once it is here.
	// +optional
	DynamicPrefix *PoolPrefix `json:"dynamicPrefix,omitempty"`
	// Conditions has Ready: False for a pool that gives nothing, with the reason. With spec.dynamicPrefix it has Prefix: False while the
	// Nodes do not agree on one.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// AddressPoolList is what the API server lists.
//
// +kubebuilder:object:root=true
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type AddressPoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// Items are the pools.
	Items []AddressPool `json:"items"`
}
