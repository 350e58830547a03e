package main

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Of MetalLB's objects, the fields that tests set.
type (
	ipAddressPool struct {
		metav1.ObjectMeta `json:"metadata"`

		Spec struct {
			Addresses         []string           `json:"addresses"`
			AutoAssign        *bool              `json:"autoAssign"`
			AvoidBuggyIPs     bool               `json:"avoidBuggyIPs"`
			ServiceAllocation *serviceAllocation `json:"serviceAllocation"`
		} `json:"spec"`
	}
	serviceAllocation struct {
		Priority           int32                  `json:"priority"`
		Namespaces         []string               `json:"namespaces"`
		NamespaceSelectors []metav1.LabelSelector `json:"namespaceSelectors"`
		ServiceSelectors   []metav1.LabelSelector `json:"serviceSelectors"`
	}
	// advertisement is an L2Advertisement, or a BGPAdvertisement.
	advertisement struct {
		metav1.ObjectMeta `json:"metadata"`

		Spec struct {
			IPAddressPools         []string               `json:"ipAddressPools"`
			IPAddressPoolSelectors []metav1.LabelSelector `json:"ipAddressPoolSelectors"`
			NodeSelectors          []metav1.LabelSelector `json:"nodeSelectors"`
			Interfaces             []string               `json:"interfaces"`
			Communities            []string               `json:"communities"`
			LocalPref              int64                  `json:"localPref"`
			Peers                  []string               `json:"peers"`
			AggregationLength      int32                  `json:"aggregationLength"`
			AggregationLengthV6    int32                  `json:"aggregationLengthV6"`
		} `json:"spec"`
	}
	bgpPeer struct {
		metav1.ObjectMeta `json:"metadata"`

		Spec struct {
			MyASN          int64                  `json:"myASN"`
			PeerASN        int64                  `json:"peerASN"`
			PeerAddress    string                 `json:"peerAddress"`
			PeerPort       int32                  `json:"peerPort"`
			SourceAddress  string                 `json:"sourceAddress"`
			HoldTime       metav1.Duration        `json:"holdTime"`
			RouterID       string                 `json:"routerID"`
			NodeSelectors  []metav1.LabelSelector `json:"nodeSelectors"`
			Password       string                 `json:"password"`
			PasswordSecret struct{ Name string }  `json:"passwordSecret"`
			BFDProfile     string                 `json:"bfdProfile"`
			EBGPMultiHop   bool                   `json:"ebgpMultiHop"`
			VRF            string                 `json:"vrf"`
		} `json:"spec"`
	}
	bfdProfile struct {
		metav1.ObjectMeta `json:"metadata"`

		Spec struct {
			TransmitInterval int64 `json:"transmitInterval"`
			DetectMultiplier int32 `json:"detectMultiplier"`
		} `json:"spec"`
	}
	community struct {
		metav1.ObjectMeta `json:"metadata"`

		Spec struct {
			Communities []struct{ Name, Value string } `json:"communities"`
		} `json:"spec"`
	}
)
