package diagnosis

import "testing"

func TestLosses(t *testing.T) {
	for _, tt := range []struct {
		name        string
		sent, again uint64
		want        int
	}{
		{"a third", 300, 100, 1},
		{"some are lost on any network", 10_000, 90, 0},
		{"a twentieth", 1000, 60, 1},
		{"a peer is away", 100, 15, 0},
		{"none was sent", 0, 0, 0},
		{"all of a few", 19, 19, 0},
	} {
		s := &Snapshot{Host: &Host{Segments: &Segments{Sent: tt.sent, Again: tt.again, Seconds: 1}}}
		if got := losses(s); len(got) != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
	if got := losses(&Snapshot{Host: &Host{}}); len(got) > 0 {
		t.Errorf("nothing was counted: %v", got)
	}
}
