package adoption

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/kubeadm/identity"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// A machine that SSH does not reach is known before anything is changed, and so are flags that its files have.
func TestCluster_Adopt_OverSSH(t *testing.T) {
	m, _ := plain(t)
	runner := m.Runner.(*machinetest.Commands)
	const line = "ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=3 " +
		"admin@198.18.0.101 -- ccmadm node show --output=json"
	ca := identity.Pins(phasestest.Cluster.Config.CAData)[0]
	flags := `{"node":"w1","caCertHashes":["` + ca + `"],"version":"v1.36.3",` +
		`"flags":[{"name":"node-ip","value":"198.18.0.101","from":[%s],"runs":true}]}`
	for _, tt := range []struct {
		name, answer, want, say string
		fails                   error
	}{
		{name: "a flag in a file", answer: strings.Replace(flags, "%s", `"/etc/default/kubelet:1"`, 1), say: "(/etc/default/kubelet:1)"},
		{
			name: "a flag in two", answer: strings.Replace(flags, "%s", `"/a:1","/b:2"`, 1),
			want: "w1: --node-ip is set in two places: /a:1 and /b:2",
		},
		{name: "no way there", fails: errors.New("exit status 255"), want: "w1: run ssh -o BatchMode=yes"},
		{
			name: "another machine", answer: `{"node":"cp2","caCertHashes":["` + ca + `"]}`,
			want: "w1: ask who answers at 198.18.0.101: it is the machine of Node/cp2, and not of Node/w1",
		},
		{
			name: "another cluster", answer: `{"node":"w1","caCertHashes":["sha256:00"]}`,
			want: "w1: ask who answers at 198.18.0.101: its kubelet belongs to another cluster",
		},
		{name: "no word of it", answer: `{}`, want: "it does not report that it is Node/"},
		{name: "no such ccmadm", answer: "hello", want: "read what ccmadm node show says on w1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			runner.Answers[line] = tt.answer
			delete(runner.Fails, line)
			if tt.fails != nil {
				runner.Fails[line] = tt.fails
			}
			r, out := adoption(t, m, workflow.Inputs{DryRun: true}, Adoption{Remote: fleet.Remote{Via: fleet.ViaSSH, SSHUser: "admin"}})
			err := adoptPreflight().Do(t.Context(), r)
			if tt.want != "" {
				phasestest.WantError(t, err, tt.want, finding.ExitRefused)
			} else if err != nil || !strings.Contains(out.String(), tt.say) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// Where two Nodes have one address, be it that a kubelet claims another one's, nobody knows which machine SSH reaches.
func TestCluster_Adopt_OverSSHToOneAddressOfTwo(t *testing.T) {
	m, client := plain(t)
	phasestest.AddNode(t, client, "w2", "198.18.0.102", nil)
	phasestest.AddNode(t, client, "w3", "198.18.0.102", nil)
	phasestest.AddNode(t, client, "w4", machinetest.Address, nil)
	runner := m.Runner.(*machinetest.Commands)
	for _, leave := range []bool{false, true} {
		if leave {
			r, out := adoption(t, m, workflow.Inputs{}, Adoption{Yes: true})
			if err := held(begin()).Do(t.Context(), r); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
		r, _ := adoption(t, m, workflow.Inputs{}, Adoption{Leave: leave, Yes: true, Remote: fleet.Remote{Via: fleet.ViaSSH, Skip: []string{"w1"}}})
		preflight := adoptPreflight()
		if leave {
			preflight = leavePreflight()
		}
		err := preflight.Do(t.Context(), r)
		phasestest.WantError(t, err, "w2: its address 198.18.0.102 is also that of Node/w3", finding.ExitRefused)
		phasestest.WantError(t, err, "w4: its address 198.18.0.11 is also that of Node/", finding.ExitRefused)
	}
	for _, line := range runner.Ran {
		if strings.HasPrefix(line, "ssh") {
			t.Errorf("it ran %s", line)
		}
	}
}

// A machine refuses a step that is another one's.
func TestCluster_Node_StepOfAnotherMachine(t *testing.T) {
	m, client := plain(t)
	config, err := phasestest.Cluster.Kubeconfig("system:node:cp2", "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	machinetest.Put(t, m, machine.KubeletConf, string(config))
	// What a run gives to a step on w1.
	r, _ := adoption(t, m, workflow.Inputs{}, Adoption{Remote: fleet.Remote{Via: fleet.ViaSSH}, NodeTimeout: fleet.NodeTimeout})
	n := &fleet.Node{Name: "w1", IP: "198.18.0.101"}
	if err := fleet.NewRunner(r.Env, client, adoptionOf(r).Remote, adoptionOf(r).NodeTimeout).Run(t.Context(), n, fleet.External{NodeIP: n.IP}); err != nil {
		t.Fatal(err)
	}
	ca := identity.Pins(phasestest.Cluster.Config.CAData)
	runner := m.Runner.(*machinetest.Commands)
	if last := runner.Ran[len(runner.Ran)-1]; !strings.HasSuffix(last,
		"198.18.0.101 -- ccmadm node external --node-ip=198.18.0.101 --node=w1 --ca-cert-hash="+strings.Join(ca, ",")) {
		t.Errorf("it ran %s", last)
	}
	before := phasestest.KubeletFilesOf(t, m)
	for want, whose := range map[string]kubelet.Whose{
		"it is the machine of Node/cp2, and not of Node/w1": {Node: "w1", CAs: ca},
		"its kubelet belongs to another cluster":            {Node: "cp2", CAs: []string{"sha256:00"}},
	} {
		for _, step := range []func(context.Context, *workflow.Env, kubelet.NodeOptions) error{kubelet.External, kubelet.Plain} {
			o := kubelet.NodeOptions{Whose: whose, NodeIP: machinetest.Address, Timeout: time.Second}
			err := step(t.Context(), kubelet.NewNode(m, o, workflow.Streams{Out: io.Discard, Err: io.Discard}, "test"), o)
			phasestest.WantError(t, err, want, finding.ExitRefused)
		}
	}
	if phasestest.KubeletFilesOf(t, m) != before || phasestest.Restarts(runner) > 0 {
		t.Error("something was changed")
	}
	o := kubelet.NodeOptions{Whose: kubelet.Whose{Node: "cp2", CAs: ca}, NodeIP: machinetest.Address, Timeout: time.Second}
	if err := kubelet.External(t.Context(), kubelet.NewNode(m, o, workflow.Streams{Out: io.Discard, Err: io.Discard}, "test"), o); err != nil {
		t.Error(err)
	}
}
