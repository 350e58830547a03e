package agents

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/objects"
)

func newReader(t *testing.T) *Reader {
	t.Helper()
	config := &rest.Config{Host: "http://api.invalid"}
	ours, err := objects.New(config)
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(kubernetes.NewForConfigOrDie(config), ours, "test")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Announcements that are apart count where the report says that they are: an agent that went back to its report leaves the object as it was.
func TestReader_Whole(t *testing.T) {
	r := newReader(t)
	announces := func(address string) []v1alpha1.Announcement {
		return []v1alpha1.Announcement{{Address: address, Level: v1alpha1.LevelBGP}}
	}
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	reports := []*v1alpha1.NodeAgent{
		{ObjectMeta: named("apart"), Status: v1alpha1.NodeAgentStatus{AnnouncementsApart: true, Version: "v1"}},
		{ObjectMeta: named("went-back"), Status: v1alpha1.NodeAgentStatus{Announcements: announces("192.0.2.2")}},
		{ObjectMeta: named("not-seen-yet"), Status: v1alpha1.NodeAgentStatus{AnnouncementsApart: true}},
	}
	for _, name := range []string{"apart", "went-back", "without-a-report"} {
		object := &v1alpha1.NodeAnnouncements{
			ObjectMeta: named(name), Announced: 1, Announcements: announces("192.0.2.1"), Sessions: []v1alpha1.BGPSession{{Peer: "tor", Advertised: 1}},
		}
		if err := r.announcements.GetStore().Add(object); err != nil {
			t.Fatal(err)
		}
	}
	whole := r.Whole(reports)
	if len(whole) != 3 || whole[0].Status.Announcements[0].Address != "192.0.2.1" || whole[0].Status.Sessions[0].Advertised != 1 ||
		whole[0].Status.Version != "v1" || whole[1].Status.Announcements[0].Address != "192.0.2.2" || len(whole[2].Status.Announcements) > 0 {
		t.Errorf("got %+v", whole)
	}
	if len(reports[0].Status.Announcements) > 0 {
		t.Error("what is in the cache was changed")
	}
	var none *Reader
	if got := none.Whole(reports); len(got) != 3 || len(none.Leases()) > 0 || !none.Known() {
		t.Errorf("without a reader: %v", got)
	}
}

// NodeAnnouncements that are written again and say the same make no pass.
func TestReader_OnAnnouncements(t *testing.T) {
	before := &v1alpha1.NodeAnnouncements{
		Announced: 1, Announcements: []v1alpha1.Announcement{{Address: "192.0.2.1"}}, Sessions: []v1alpha1.BGPSession{{Peer: "tor"}},
	}
	for _, tt := range []struct {
		name   string
		change func(*v1alpha1.NodeAnnouncements)
		want   int
	}{
		{name: "written again", change: func(a *v1alpha1.NodeAnnouncements) { a.RenewTime, a.ResourceVersion = metav1.NowMicro(), "2" }},
		{name: "another address", change: func(a *v1alpha1.NodeAnnouncements) { a.Announcements[0].Address = "192.0.2.2" }, want: 1},
		{name: "another session", change: func(a *v1alpha1.NodeAnnouncements) { a.Sessions[0].State = "Established" }, want: 1},
		{name: "another number", change: func(a *v1alpha1.NodeAnnouncements) { a.Announced = 2 }, want: 1},
	} {
		after := before.DeepCopy()
		tt.change(after)
		got := 0
		handler := onAnnouncements(func() { got++ })
		if handler.OnUpdate(before, after); got != tt.want {
			t.Errorf("%s: %d passes, want %d", tt.name, got, tt.want)
		}
		if handler.OnAdd(after, false); got != tt.want+1 {
			t.Errorf("%s: a new one makes no pass", tt.name)
		}
		if handler.OnDelete(after); got != tt.want+2 {
			t.Errorf("%s: one that is gone makes no pass", tt.name)
		}
	}
}

// Passes wait for both kinds, unless they cannot be had.
func TestReader_Known(t *testing.T) {
	r := newReader(t)
	if r.Known() {
		t.Error("nothing was listed yet")
	}
	if r.leases.denied.Store(true); r.Known() {
		t.Error("announcements were not listed yet")
	}
	if r.announcements.denied.Store(true); !r.Known() {
		t.Error("neither can be had, and passes wait for them")
	}
	r = newReader(t)
	if r.begun.Store(time.Now().UnixNano()); r.Known() {
		t.Error("they may come yet")
	}
	if r.begun.Store(time.Now().Add(-2 * objects.LiveTime).UnixNano()); !r.Known() {
		t.Error("passes wait for ever")
	}
}
