package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// An agent that has not renewed its report for minutes is unheard: by the clock of who reads it, and not while or right
// after nothing was heard of anybody.
func TestVoices(t *testing.T) {
	start := time.Now()
	agents := map[string]*v1alpha1.NodeAgent{}
	renew := func(at time.Duration, names ...string) {
		for _, name := range names {
			agents[name] = &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: name}}
			agents[name].Status.RenewTime = metav1.NewMicroTime(start.Add(at - 24*time.Hour)) // a clock of its own
		}
	}
	v, resumed := voices{}, start
	check := func(at time.Duration, want ...string) {
		t.Helper()
		wanted := map[string]bool{}
		for _, name := range want {
			wanted[name] = true
		}
		if diff := cmp.Diff(wanted, v.unheard(start.Add(at), resumed, agents)); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", at, diff)
		}
	}
	renew(0, "a", "b", "c")
	check(0)
	for at := 20 * time.Second; at < 2*time.Minute; at += 20 * time.Second {
		renew(at, "a", "b")
		check(at)
	}
	renew(200*time.Second, "a", "b")
	check(200*time.Second, "c")
	renew(210*time.Second, "c")
	check(210 * time.Second)

	resumed = start.Add(20 * time.Minute) // the API server was away
	check(20 * time.Minute)
	renew(20*time.Minute, "a")
	check(22 * time.Minute)
	renew(22*time.Minute, "a")
	check(24*time.Minute, "b", "c")
	delete(agents, "b")
	check(24*time.Minute, "c")
	renew(25*time.Minute, "a", "b", "c")
	check(25 * time.Minute)
}
