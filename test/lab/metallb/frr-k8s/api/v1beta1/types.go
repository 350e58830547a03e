// Package v1beta1 stands for the types of frr-k8s, which is not to be had as a Go module: MetalLB's programs name them
// for a mode that the lab does not use. It lets them be compiled. In mode native nothing of it runs but AddToScheme.
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// AddToScheme adds nothing.
func AddToScheme(*runtime.Scheme) error { return nil }

type FRRConfiguration struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec FRRConfigurationSpec
}

func (c *FRRConfiguration) DeepCopy() *FRRConfiguration {
	other := *c
	return &other
}

func (c *FRRConfiguration) DeepCopyObject() runtime.Object { return c.DeepCopy() }

type FRRConfigurationSpec struct {
	NodeSelector metav1.LabelSelector
	BGP          BGPConfig
}

func (s *FRRConfigurationSpec) DeepCopyInto(other *FRRConfigurationSpec) { *other = *s }

type BGPConfig struct {
	Routers     []Router
	BFDProfiles []BFDProfile
}

type Router struct {
	ASN       uint32
	ID, VRF   string
	Neighbors []Neighbor
	Prefixes  []string
}

type DynamicASNMode string

type Neighbor struct {
	ASN                                      uint32
	DynamicASN                               DynamicASNMode
	Address, Interface, Password, BFDProfile string
	PasswordSecret                           SecretReference
	Port                                     *uint16
	HoldTime, KeepaliveTime, ConnectTime     *metav1.Duration
	EBGPMultiHop, EnableGracefulRestart      bool
	DualStackAddressFamily, DisableMP        bool
	ToAdvertise                              Advertise
}

type SecretReference struct{ Name, Namespace string }

type Advertise struct {
	Allowed                   AllowedOutPrefixes
	PrefixesWithLocalPref     []LocalPrefPrefixes
	PrefixesWithCommunity     []CommunityPrefixes
	PrefixesWithAsPathPrepend []AsPathPrependPrefixes
}

type AllowedOutPrefixes struct{ Prefixes []string }

type LocalPrefPrefixes struct {
	LocalPref uint32
	Prefixes  []string
}

type CommunityPrefixes struct {
	Community string
	Prefixes  []string
}

type AsPathPrependPrefixes struct {
	AsPathPrepend uint8
	Prefixes      []string
}

type BFDProfile struct {
	Name                                                                          string
	ReceiveInterval, TransmitInterval, DetectMultiplier, EchoInterval, MinimumTTL *uint32
	EchoMode, PassiveMode                                                         *bool
}
