package phases

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/bootstrap"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// kubeadm's dry run prints objects and files: they lose what is a credential in them.
func TestReset_DryRunSecrets(t *testing.T) {
	const secret = "hunter2hunter2"
	m, runner := machinetest.New(t)
	runner.Answers["kubeadm reset"] = "[dryrun] Attached object:\n\tdata:\n\t  config: |\n\t    password: one " + secret +
		"\n\t    - name: DB_PASS\n\t      value: " + secret + "\n[reset] kept\n"
	var out bytes.Buffer
	if err := bootstrap.Reset(t.Context(), record.NewBare(m, workflow.Inputs{DryRun: true}, workflow.Streams{Out: &out, Err: &out}, "test"), nil); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Contains(text, secret) || !strings.Contains(text, "[reset] kept\n") {
		t.Errorf("got\n%s", text)
	}
}
