package network

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// kept is a cluster whose agents have all of it in objects of their own; broken: it does not answer for some, or does not know them.
type kept struct {
	client.Reader
	now             time.Time
	broken, unknown string
}

// List answers.
func (k kept) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	w1 := metav1.ObjectMeta{Name: "w1"}
	if fmt.Sprintf("%T", list) == k.broken {
		return context.DeadlineExceeded
	}
	if fmt.Sprintf("%T", list) == k.unknown {
		return &meta.NoKindMatchError{}
	}
	switch list := list.(type) {
	case *v1alpha1.NodeAgentList:
		list.Items = []v1alpha1.NodeAgent{{ObjectMeta: w1, Status: v1alpha1.NodeAgentStatus{
			RenewTime: metav1.NewMicroTime(k.now.Add(-72 * time.Hour)), AnnouncementsApart: true,
			ControlPlaneVIP: &v1alpha1.VIPReport{Address: "192.0.2.9", Has: true},
		}}, {ObjectMeta: metav1.ObjectMeta{Name: "went-back"}, Status: v1alpha1.NodeAgentStatus{RenewTime: metav1.NewMicroTime(k.now)}}}
	case *v1alpha1.NodeAgentLeaseList:
		list.Items = []v1alpha1.NodeAgentLease{{ObjectMeta: w1, RenewTime: metav1.NewMicroTime(k.now.Add(-15 * time.Second))}}
	case *v1alpha1.NodeAnnouncementsList:
		for _, name := range []string{"w1", "went-back"} {
			list.Items = append(list.Items, v1alpha1.NodeAnnouncements{
				ObjectMeta:    metav1.ObjectMeta{Name: name},
				RenewTime:     metav1.NewMicroTime(k.now.Add(-time.Hour)),
				Announcements: []v1alpha1.Announcement{{Address: "192.0.2.50", Level: v1alpha1.LevelBGP}},
				Sessions:      []v1alpha1.BGPSession{{Peer: "tor", Advertised: 1}},
			})
		}
	case *corev1.PodList:
		list.Items = []corev1.Pod{{Spec: corev1.PodSpec{NodeName: "w1", Containers: []corev1.Container{{Args: []string{"--vip=192.0.2.9"}}}}}}
	}
	return nil
}

// A report of three days ago counts while its agent renews its lease, with the announcements that are apart.
func TestRead_WhatAgentsHaveApart(t *testing.T) {
	now := time.Now()
	s, err := Read(t.Context(), kept{now: now})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.announcers("192.0.2.50"); len(got) != 1 || got[0] != "w1" {
		t.Errorf("the address is announced by %v, want w1", got)
	}
	if got := s.silence(&s.Agents[0]); got < 15*time.Second || got > 20*time.Second {
		t.Errorf("its last sign of life was %s ago, want 15 s", got)
	}
	if got := s.Agents[0].Status.RenewTime; got.Sub(now.Add(-time.Hour)).Abs() > time.Second {
		t.Errorf("it said so at %s, want an hour ago", got)
	}
	if s.Agents[0].Status.Sessions[0].Advertised != 1 {
		t.Error("the report has not the sessions that are apart")
	}
	v, err := ReadVIP(t.Context(), kept{now: now})
	if err != nil || len(v.Owners) != 1 {
		t.Errorf("the owners of the control plane's address are %+v: %v", v, err)
	}
	for _, broken := range []string{"*v1alpha1.NodeAgentLeaseList", "*v1alpha1.NodeAnnouncementsList"} {
		if _, err := Read(t.Context(), kept{now: now, broken: broken}); err == nil {
			t.Errorf("%s was not read, and no error says so", broken)
		}
	}
	if _, err := ReadVIP(t.Context(), kept{now: now, broken: "*v1alpha1.NodeAgentLeaseList"}); err == nil {
		t.Error("leases were not read, and no error says so")
	}
}

// A kind that the cluster does not know takes nothing from what it knows, nor from what it does not answer.
func TestRead_UnknownKind(t *testing.T) {
	const pools, peers, agents = "*v1alpha1.AddressPoolList", "*v1alpha1.BGPPeerList", "*v1alpha1.NodeAgentList"
	for _, tt := range []struct {
		unknown, broken string
		agents          int
		defined, fails  bool
	}{
		{unknown: peers, agents: 2, defined: true},
		{unknown: pools, agents: 2},
		{unknown: agents, defined: true},
		{unknown: peers, broken: agents, defined: true, fails: true},
		{unknown: agents, broken: pools, defined: true, fails: true},
	} {
		s, err := Read(t.Context(), kept{now: time.Now(), unknown: tt.unknown, broken: tt.broken})
		if (err != nil) != tt.fails || len(s.Agents) != tt.agents || s.Defined != tt.defined {
			t.Errorf("without %s, and no answer for %q: %d agents, defined %t: %v", tt.unknown, tt.broken, len(s.Agents), s.Defined, err)
		}
	}
}
