package phases

import (
	"errors"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/phases/machine/machinetest"
)

// A machine that SSH does not reach is known before anything is changed, and so are flags that its files have.
func TestCluster_Adopt_OverSSH(t *testing.T) {
	m, _ := plain(t)
	runner := m.Runner.(*machinetest.Commands)
	const line = "ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=3 " +
		"admin@198.18.0.101 -- ccmadm node show --output=json"
	const flags = `{"version":"v1.36.3","flags":[{"name":"node-ip","value":"198.18.0.101","from":[%s],"runs":true}]}`
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
		{name: "no such ccmadm", answer: "hello", want: "read what ccmadm node show says on w1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			runner.Answers[line] = tt.answer
			delete(runner.Fails, line)
			if tt.fails != nil {
				runner.Fails[line] = tt.fails
			}
			d, out := adoption(t, m, Options{DryRun: true}, Adoption{Via: ViaSSH, SSHUser: "admin"})
			err := adoptPreflight().run(t.Context(), d)
			if tt.want != "" {
				wantError(t, err, tt.want, finding.ExitRefused)
			} else if err != nil || !strings.Contains(out.String(), tt.say) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
