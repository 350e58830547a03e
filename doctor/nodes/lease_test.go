package nodes

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

func TestLeadership(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	// at is the Lease as it looks after so many seconds of this machine's clock.
	type look struct {
		after   int
		renewed time.Time
	}
	ahead, behind := now.Add(-30*time.Second), now.Add(30*time.Second) // the holder's now, by clocks 30 s apart
	tests := []struct {
		name  string
		looks []look
		at    int
		want  bool
	}{
		{
			name:  "renewed just now",
			looks: []look{{0, now}},
			want:  true,
		},
		{
			name:  "renewed too long ago",
			looks: []look{{0, now.Add(-16 * time.Second)}},
		},
		{
			name:  "this clock is 30 s ahead, and a renewal was seen",
			looks: []look{{0, ahead}, {2, ahead.Add(2 * time.Second)}},
			at:    3,
			want:  true,
		},
		{
			name:  "this clock is 30 s ahead, and the holder has died since",
			looks: []look{{0, ahead}, {2, ahead.Add(2 * time.Second)}},
			at:    18,
		},
		{
			name:  "this clock is 30 s behind, and the holder has died since",
			looks: []look{{0, behind}, {2, behind.Add(2 * time.Second)}},
			at:    18,
		},
		{
			name:  "a look that brings nothing new is no renewal",
			looks: []look{{0, now}, {5, now}, {14, now}},
			at:    16,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var l leadership
			for _, look := range tt.looks {
				l.see(newLease("cp1_1234", look.renewed), now.Add(time.Duration(look.after)*time.Second))
			}
			if got := l.held(now.Add(time.Duration(tt.at) * time.Second)); got != tt.want {
				t.Errorf("got held %v, want %v", got, tt.want)
			}
		})
	}
}

func TestLeadership_Nobody(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for name, lease := range map[string]*coordinationv1.Lease{
		"no lease": nil, "one that was released": newLease("", now), "one without times": {},
	} {
		t.Run(name, func(t *testing.T) {
			l := leadership{name: "x"}
			l.see(lease, now)
			if got, want := l.leaderless(now), "Lease/kube-system/x has no holder"; l.held(now) || got != want {
				t.Errorf("held %v, %q, want %q", l.held(now), got, want)
			}
		})
	}
}
