package manager

import (
	"strings"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/kubeadm/identity"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/phasestest"
)

func TestCheckIdentity(t *testing.T) {
	m, _ := machinetest.New(t)
	if end, f, err := identity.Check(m); err != nil || f != nil || !end.IsZero() {
		t.Errorf("a worker: %v, %v, %v", end, f, err)
	}
	machinetest.CopyCA(t, machinetest.NewCA(t), m.Path(machine.PKIDir))
	if _, err := (phasestest.Run{Config: phasestest.InitConfig}).Do(t, m, Kubeconfig()); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		at   time.Time
		want string
	}{
		{name: "new", at: phasestest.Now},
		{name: "31 days before its end", at: phasestest.Now.AddDate(0, 0, 365-31)},
		{name: "29 days before its end", at: phasestest.Now.AddDate(0, 0, 365-29), want: "ends on 2027-11-21, in 29 days"},
		{name: "the day after", at: phasestest.Now.AddDate(0, 0, 366), want: "ended on 2027-11-21"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m.Now = func() time.Time { return tt.at }
			_, f, err := identity.Check(m)
			if err != nil {
				t.Fatal(err)
			}
			if (f == nil) != (tt.want == "") || f != nil && !strings.Contains(f.Message, tt.want) {
				t.Errorf("got %v, want %q", f, tt.want)
			}
		})
	}
	machinetest.Put(t, m, machine.CCMKubeconfig, "not a kubeconfig")
	if _, _, err := identity.Check(m); err == nil {
		t.Error("a file that cannot be read is no healthy one")
	}
}
