package agent

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// announcing is a source that announces so many addresses.
func announcing(addresses int) func(*v1alpha1.NodeAgentStatus) {
	return func(s *v1alpha1.NodeAgentStatus) {
		for i := range addresses {
			s.Announcements = append(s.Announcements, v1alpha1.Announcement{Address: fmt.Sprintf("198.51.100.%d", i), Level: v1alpha1.LevelBGP})
		}
		s.Sessions = []v1alpha1.BGPSession{{Peer: "tor", State: "Established", Advertised: int32(addresses)}}
	}
}

// both reads what the API server has of both objects.
func both(t *testing.T, server *recording) (report v1alpha1.NodeAgent, apart v1alpha1.NodeAnnouncements) {
	t.Helper()
	server.get(t, "nodeagents", &report)
	server.get(t, "nodeannouncements", &apart)
	return report, apart
}

// While a manager watches them, announcements are apart, and a new one does not change the report that all agents watch. Without a manager
// they are in the report; and with one again not before the object that is apart has what is announced by then.
func TestReporter_AnnouncementsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Bool
		reads.Store(true)
		server, said := &recording{slow: 300 * time.Millisecond}, &saying{}
		said.set(announcing(2))
		r := runReporter(t, server, reads.Load, said.add)
		time.Sleep(time.Minute)
		report, apart := both(t, server)
		if s := report.Status; !s.AnnouncementsApart || len(s.Announcements) > 0 || s.Announced > 0 || s.Sessions[0].Advertised > 0 {
			t.Errorf("the report says what is apart: %+v", s)
		}
		if len(apart.Announcements) != 2 || apart.Announced != 2 || apart.Sessions[0].Advertised != 2 || apart.OwnerReferences[0].UID != "u" {
			t.Errorf("apart are %+v", apart)
		}
		changed := time.Now()
		said.set(announcing(3))
		r.announced()
		time.Sleep(time.Second)
		if _, apart = both(t, server); len(apart.Announcements) != 3 || len(apart.OwnerReferences) != 1 || server.count("nodeagents", changed) > 0 {
			t.Errorf("after another one apart are %+v, and the report was written %d times", apart, server.count("nodeagents", changed))
		}

		reads.Store(false)
		time.Sleep(longestTrust + 6*time.Second)
		said.set(announcing(4))
		r.announced()
		time.Sleep(time.Second)
		if report, _ = both(t, server); report.Status.AnnouncementsApart || len(report.Status.Announcements) != 4 || report.Status.Announced != 4 {
			t.Errorf("without a manager the report says %+v", report.Status)
		}

		reads.Store(true)
		for again := time.Now(); time.Since(again) < 10*time.Second; time.Sleep(time.Millisecond) {
			if report, apart = both(t, server); report.Status.AnnouncementsApart && len(apart.Announcements) != 4 {
				t.Fatalf("the report has no announcements, and apart are those of before: %+v", apart)
			}
		}
		if !report.Status.AnnouncementsApart {
			t.Error("with a manager again the announcements are in the report")
		}
	})
}

// Where they cannot be written apart, or the report cannot say so, announcements are in the report, and change it.
func TestReporter_AnnouncementsRefused(t *testing.T) {
	for name, server := range map[string]func() *recording{
		"forbidden":                  func() *recording { return &recording{announcements: http.StatusForbidden} },
		"not defined":                func() *recording { return &recording{announcements: http.StatusNotFound} },
		"an earlier NodeAgent's CRD": func() *recording { return &recording{prunes: true} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, said := server(), &saying{}
				said.set(announcing(2))
				r := runReporter(t, server, func() bool { return true }, said.add)
				time.Sleep(time.Minute)
				said.set(announcing(3))
				r.announced()
				time.Sleep(time.Second)
				var report v1alpha1.NodeAgent
				if server.get(t, "nodeagents", &report); report.Status.AnnouncementsApart || len(report.Status.Announcements) != 3 {
					t.Errorf("the report says %+v", report.Status)
				}
			})
		})
	}
}

// Where only announcements cannot be written apart, they are in the report soon, and apart again once they can be.
func TestReporter_AnnouncementsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, said := &recording{}, &saying{}
		said.set(announcing(2))
		r := runReporter(t, server, func() bool { return true }, said.add)
		time.Sleep(time.Minute)
		server.ill.Store(true)
		said.set(announcing(3))
		r.announced()
		time.Sleep(3 * apartFails)
		if report, _ := both(t, server); report.Status.AnnouncementsApart || len(report.Status.Announcements) != 3 {
			t.Errorf("the report says %+v", report.Status)
		}
		server.ill.Store(false)
		time.Sleep(5 * time.Second)
		if report, apart := both(t, server); !report.Status.AnnouncementsApart || len(apart.Announcements) != 3 {
			t.Errorf("the report says %+v, apart are %+v", report.Status, apart)
		}
	})
}

// An object that was overwritten, as by a backup, is written again.
func TestReporter_AnnouncementsOverwritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, said := &recording{}, &saying{}
		said.set(announcing(2))
		r := runReporter(t, server, func() bool { return true }, said.add)
		time.Sleep(time.Minute)
		before := &v1alpha1.NodeAnnouncements{ObjectMeta: metav1.ObjectMeta{Name: "w1", ResourceVersion: "before"}}
		server.keep(t, "nodeannouncements", before)
		must(t, r.apart.own.GetStore().Update(before))
		r.apart.changed() // as its informer does
		time.Sleep(time.Second)
		if _, apart := both(t, server); len(apart.Announcements) != 2 {
			t.Errorf("apart are %+v", apart)
		}
	})
}

// What changes all the time, and is no news for other agents, keeps the agent from renewing nothing, and is written at most once a second
// where it is long.
func TestReporter_AnnouncementsThatChange(t *testing.T) {
	for addresses, most := range map[int]int{4: 3100, 1000: 61} {
		t.Run(fmt.Sprint(addresses), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, said := &recording{}, &saying{}
				r := runReporter(t, server, func() bool { return true }, said.add)
				time.Sleep(time.Minute)
				start := time.Now()
				for n := 0; time.Since(start) < time.Minute; n++ {
					said.set(announcing(addresses + n%2))
					r.announced()
					time.Sleep(15 * time.Millisecond)
				}
				if n := server.count("nodeagentleases", start); n < 2 {
					t.Errorf("in a minute of changes its lease was renewed %d times", n)
				}
				if n := server.count("nodeannouncements", start); n < 20 || n > most {
					t.Errorf("in a minute they were written %d times, want 20 to %d", n, most)
				}
				if n := server.count("nodeagents", start); n > 1 {
					t.Errorf("in a minute the report was written %d times", n)
				}
			})
		})
	}
}
