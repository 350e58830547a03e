package upgrade

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// environments keeps what each command is given.
type environments struct{ given [][]string }

func (e *environments) Run(_ context.Context, c machine.Command) error {
	e.given = append(e.given, c.Env)
	return nil
}

// Kubeadm writes static pods with the proxies of its own environment. A shell or a pod that has none does not take them away.
func TestUpgrade_KeepsProxies(t *testing.T) {
	const tz = "{name: TZ, value: UTC}"
	const https, no = "{name: HTTPS_PROXY, value: 'http://p:3128'}", "{name: no_proxy, value: '10.0.0.0/8'}"
	put := func(m *machine.Machine, component, env string) {
		machinetest.Put(t, m, machine.ManifestDir+"/"+component+".yaml", "spec: {containers: [{name: c, env: ["+env+"]}]}\n")
	}
	for _, tt := range []struct {
		name                  string
		apiServer, controller string
		scheduler             string
		caller                map[string]string
		want                  []string
		differ                bool
	}{
		{
			name: "kubeadm's own", apiServer: https + "," + no, controller: https + "," + no, scheduler: https + "," + no,
			want: []string{"HTTPS_PROXY=http://p:3128", "no_proxy=10.0.0.0/8"},
		},
		{
			name: "an extraEnv of one component", apiServer: https + ",{name: no_proxy, value: .svc}", controller: https + "," + no,
			scheduler: https + "," + no, differ: true,
		},
		{
			name: "extraEnvs of two components", apiServer: https + "," + no, controller: https + ",{name: no_proxy, value: .svc}",
			scheduler: tz, differ: true,
		},
		{
			name: "the caller's", apiServer: https + "," + no, controller: https + "," + no,
			caller: map[string]string{"https_proxy": "mine"}, want: []string{"https_proxy=mine"},
		},
		{name: "the caller drops them", apiServer: https, controller: https, scheduler: https, caller: map[string]string{"HTTPS_PROXY": ""}},
		{
			name: "another of the caller's", apiServer: "{name: ALL_PROXY, value: other}", controller: "{name: ALL_PROXY, value: other}",
			caller: map[string]string{"all_proxy": "mine"},
		},
		{name: "others", apiServer: tz, controller: tz},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := machinetest.New(t)
			ran := &environments{}
			put(m, "kube-apiserver", tt.apiServer)
			put(m, "kube-controller-manager", tt.controller)
			if tt.scheduler != "" {
				put(m, "kube-scheduler", tt.scheduler)
			}
			r, out := phasestest.Run{Inputs: workflow.Inputs{Role: kubeadm.RoleJoin, Operation: &Upgrade{}}}.Must(t, m)
			r.Machine.Runner, r.Getenv = ran, func(name string) string { return tt.caller[name] }
			r.LookupEnv = func(name string) (string, bool) { value, is := tt.caller[name]; return value, is }
			if err := upgradeOf(r).runUpgrade(t.Context(), r.Env); err != nil {
				t.Fatal(err)
			}
			got := slices.Concat(ran.given...)
			slices.Sort(got)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("kubeadm is given (-want +got):\n%s", diff)
			}
			if differ := strings.Contains(out.String(), "differ in their proxy variables"); differ != tt.differ {
				t.Errorf("it says that they differ: %v\n%s", differ, out)
			}
		})
	}
}
