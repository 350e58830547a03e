package upgrade

import (
	"context"
	"slices"
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
	}{
		{
			name: "kubeadm's own", apiServer: https + "," + no, controller: https + "," + no, scheduler: https + "," + no,
			want: []string{"HTTPS_PROXY=http://p:3128", "no_proxy=10.0.0.0/8"},
		},
		{
			name: "an extraEnv of one component", apiServer: "{name: HTTPS_PROXY, value: other}," + no, controller: https, scheduler: https,
			want: []string{"HTTPS_PROXY=http://p:3128"},
		},
		{
			name: "the caller's", apiServer: https + "," + no, controller: https + "," + no,
			caller: map[string]string{"https_proxy": "mine"}, want: []string{"https_proxy=mine", "no_proxy=10.0.0.0/8"},
		},
		{name: "others", apiServer: "{name: TZ, value: UTC}", controller: "{name: TZ, value: UTC}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := machinetest.New(t)
			ran := &environments{}
			put(m, "kube-apiserver", tt.apiServer)
			put(m, "kube-controller-manager", tt.controller)
			if tt.scheduler != "" {
				put(m, "kube-scheduler", tt.scheduler)
			}
			r, _ := phasestest.Run{Inputs: workflow.Inputs{Role: kubeadm.RoleJoin, Operation: &Upgrade{}}}.Must(t, m)
			r.Machine.Runner, r.Getenv = ran, func(name string) string { return tt.caller[name] }
			if err := upgradeOf(r).runUpgrade(t.Context(), r.Env); err != nil {
				t.Fatal(err)
			}
			got := slices.Concat(ran.given...)
			slices.Sort(got)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("kubeadm is given (-want +got):\n%s", diff)
			}
		})
	}
}
