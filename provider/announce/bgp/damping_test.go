package bgp

import (
	"slices"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// scene is what is seen of a session, and for how long.
type scene struct {
	state, message string
	lasts          time.Duration
}

// shown plays scenes n times to a damping that looks every second, and returns how often what is reported changes meanwhile and the
// last of it.
func shown(d damping, now *time.Time, n int, scenes ...scene) (changes int, last v1alpha1.BGPSession, without []string) {
	for range n {
		for _, s := range scenes {
			for end := now.Add(s.lasts); now.Before(end); *now = now.Add(time.Second) {
				var said []v1alpha1.BGPSession
				said, without = d.damp(*now, []v1alpha1.BGPSession{{Peer: "tor1", State: s.state, Message: s.message}})
				if said[0] != last {
					changes++
				}
				last = said[0]
			}
		}
	}
	return changes, last, without
}

// What comes and goes is reported some times, and then as lost, until it stays as it is. Each loss is reported at once.
func TestDamping(t *testing.T) {
	up := scene{stateEstablished, "", 5 * time.Second}
	lost := scene{stateActive, "session ended: notification-received", 3 * time.Second}
	refused := scene{stateActive, "refused", 4 * time.Second}
	for _, tt := range []struct {
		name   string
		scenes []scene
		most   int // changes in an hour
		want   scene
	}{
		{"a session that does not last", []scene{up, lost}, 2 * freeLosses, lost},
		{"a router in a loop of crashes", []scene{up, lost, refused}, 3*freeLosses + freeChanges, lost},
		{"a reason that alternates", []scene{lost, refused}, freeChanges + 1, lost},
		{"a session that lasts for some minutes", []scene{{stateEstablished, "", 5 * time.Minute}, lost}, 26, lost},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, now, hour := damping{}, time.Now(), time.Duration(0)
			for _, s := range tt.scenes {
				hour += s.lasts
			}
			n, last, _ := shown(d, &now, int(time.Hour/hour), tt.scenes...)
			if n < 2 || n > tt.most || last.State != tt.want.state {
				t.Errorf("in an hour %d changes, at last %+v; want 2 to %d, and %+v", n, last, tt.most, tt.want)
			}
		})
	}
}

// A router that is started again now and then is reported at once, both ways, and one that was ill when it has been well for a while.
func TestDamping_Recovers(t *testing.T) {
	up, lost := scene{stateEstablished, "", time.Second}, scene{stateActive, "session ended", time.Second}
	d, now := damping{}, time.Now()
	for range freeLosses - 1 {
		if _, last, _ := shown(d, &now, 1, up); last.State != stateEstablished {
			t.Errorf("it is established, and reported is %+v", last)
		}
		if _, last, _ := shown(d, &now, 1, lost); last.State != stateActive {
			t.Errorf("it is lost, and reported is %+v", last)
		}
	}
	shown(d, &now, 9, up, lost)
	up.lasts = calmTime
	_, last, without := shown(d, &now, 1, up)
	if last.State != stateActive || last.Message != lost.message || !slices.Equal(without, []string{"tor1"}) {
		t.Errorf("after less than a minute reported is %+v, and left out are %v", last, without)
	}
	up.lasts = 2 * time.Second
	if _, last, without = shown(d, &now, 1, up); last.State != stateEstablished || len(without) > 0 {
		t.Errorf("after a minute reported is %+v, and left out are %v", last, without)
	}
	if _, last, _ = shown(d, &now, 1, lost); last.State != stateActive {
		t.Errorf("it is lost again, and reported is %+v", last)
	}
	if said, _ := d.damp(now, nil); len(said) > 0 || len(d) > 0 {
		t.Errorf("without routers reported is %v, and %d are remembered", said, len(d))
	}
}

// A session may be established between the look at its state and that at its prefixes.
func TestDamping_Without(t *testing.T) {
	_, without := damping{}.damp(time.Now(), []v1alpha1.BGPSession{{Peer: "tor1", State: stateActive}, {Peer: "tor2", State: stateEstablished}})
	if !slices.Equal(without, []string{"tor1"}) {
		t.Errorf("prefixes of sessions with %v are not reported, want tor1", without)
	}
}

// How much is advertised is news at once, as long as the session is reported as established.
func TestDamping_Advertised(t *testing.T) {
	d, now := damping{}, time.Now()
	for i := range int32(100) {
		said, _ := d.damp(now, []v1alpha1.BGPSession{{Peer: "tor1", State: stateEstablished, Advertised: i}})
		if said[0].Advertised != i {
			t.Fatalf("reported are %d prefixes, want %d", said[0].Advertised, i)
		}
	}
}
