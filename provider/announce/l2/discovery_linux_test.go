package l2

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/provider/announce"
)

// Who drains hands over to one of which it could not learn: its API server was away when that joined. Once it has, it
// does not hear those who are deleted.
func TestL2_HandsOverToDiscoveredAgent(t *testing.T) {
	address := netip.MustParseAddr("10.8.0.100")
	a := newAgents(t, announce.Claim{Address: address, Probed: true})
	all := a.view
	sees := func(draining bool, names ...string) announce.View {
		v := all
		v.Draining, v.Members, v.Addresses = draining, names, map[string]netip.Addr{}
		for _, name := range names {
			v.Addresses[name] = all.Addresses[name]
		}
		v.Claims = slices.Clone(all.Claims)
		v.Claims[0].Candidates = names
		return v
	}
	set := func(name string, v announce.View) {
		v.Node = name
		a.list[name].Set(&v)
	}
	a.view = sees(false, "a")
	a.start("a")
	a.owner(address, "", 5*time.Second)
	a.view = sees(false, "a", "b")
	a.start("b")
	time.Sleep(1500 * time.Millisecond)
	if a.list["b"].Owns(address) {
		t.Fatal("b has the address, while a works")
	}
	set("a", sees(true, "a"))
	a.owner(address, "a", 2*time.Second)
	set("a", sees(false, "a"))
	time.Sleep(1500 * time.Millisecond) // longer than anybody owns something without being answered
	if !a.list["b"].Owns(address) {
		t.Error("b has lost the address, since a drains no more")
	}
	set("a", sees(false, "a", "b"))
	time.Sleep(1500 * time.Millisecond)
	if !a.list["b"].Owns(address) {
		t.Error("b has lost the address, since a has learned of it")
	}
	set("a", sees(true, "a"))
	time.Sleep(1500 * time.Millisecond)
	if a.list["b"].Owns(address) {
		t.Error("b has the address, though its Node is deleted")
	}
}
