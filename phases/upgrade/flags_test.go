package upgrade

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func TestMergeFlags(t *testing.T) {
	const twoLines = "A=\"--cloud-provider=external --node-ip=10.0.0.5\"\nB=\"--max-pods=200\"\n"
	for _, tt := range []struct{ name, before, after, want, wantErr string }{
		{
			name:   "what kubeadm has left alone stays, byte for byte",
			before: "A=\"--cloud-provider=external --node-ip=10.0.0.1\"\n",
			after:  "A=\"--cloud-provider=external --node-ip=10.0.0.1\"\n",
			want:   "A=\"--cloud-provider=external --node-ip=10.0.0.1\"\n",
		},
		{
			name:   "two lines that kubeadm has left alone",
			before: twoLines, after: twoLines, want: twoLines,
		},
		{
			name:   "two lines of which kubeadm has made one: nobody can tell what is whose",
			before: twoLines, after: `A="--cloud-provider=external"`, want: `A="--cloud-provider=external"`,
			wantErr: "it is not as kubeadm writes it, one line",
		},
		{
			name:   "quotes inside",
			before: `A="--cloud-provider=external" B="--v=2"`, after: `A="--v=2"`, want: `A="--v=2"`,
			wantErr: "it is not as kubeadm writes it, one line",
		},
		{
			name:   "a flag that stands twice, left alone",
			before: "A=\"--feature-gates=A=true --feature-gates=B=true\"\n",
			after:  "A=\"--feature-gates=A=true --feature-gates=B=true\"\n",
			want:   "A=\"--feature-gates=A=true --feature-gates=B=true\"\n",
		},
		{
			name:   "a flag that stands twice, beside one that is lost",
			before: `A="--node-ip=10.0.0.1 --feature-gates=A=true --feature-gates=B=true"`,
			after:  `A="--feature-gates=A=true --feature-gates=B=true"`,
			want:   "A=\"--node-ip=10.0.0.1 --feature-gates=A=true --feature-gates=B=true\"\n",
		},
		{
			name:   "what kubeadm takes away on purpose is gone",
			before: `A="--container-runtime-endpoint=unix:///x --cloud-provider=external --pod-infra-container-image=p:1"`,
			after:  `A="--cloud-provider=external"`,
			want:   `A="--cloud-provider=external"`,
		},
		{
			name:   "a flag without a value has become the name of the next one's",
			before: `A="--register-node --cloud-provider=external --pod-infra-container-image=p:1"`,
			after:  `A="--register-node=--cloud-provider=external"`,
			want:   "A=\"--register-node --cloud-provider=external\"\n",
		},
		{
			name:   "a flag of external mode without a value after it is lost",
			before: `A="--node-ip 10.0.0.1 --cloud-provider=external --v=2"`,
			after:  `A="--v=2"`,
			want:   "A=\"--node-ip 10.0.0.1 --cloud-provider=external --v=2\"\n",
		},
		{
			name:   "another value and another flag of kubeadm's",
			before: `A="--cloud-provider=external --v=2"`,
			after:  `A="--v=3 --new=1"`,
			want:   "A=\"--cloud-provider=external --v=3 --new=1\"\n",
		},
		{
			name:   "the file is gone",
			before: `A="--cloud-provider=external --v=2"`,
			want:   "A=\"--cloud-provider=external\"\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := mergeFlags(tt.before, tt.after)
			if got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
			if (err == nil) != (tt.wantErr == "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("%v, want %q", err, tt.wantErr)
			}
			if again, _ := mergeFlags(tt.before, got); again != got {
				t.Errorf("once more:\n%s", again)
			}
		})
	}
}

// What was noted before kubeadm began is what counts, however often the phase before was cut short.
func TestKubeletFlags_GivenBack(t *testing.T) {
	m, _ := machinetest.New(t)
	const before = "KUBELET_KUBEADM_ARGS=\"--register-node --cloud-provider=external\"\n"
	machinetest.Put(t, m, machine.KubeadmFlags, before)
	r, _ := phasestest.Run{Inputs: workflow.Inputs{Operation: &Upgrade{target: version.MustParseSemantic("v1.36.3")}}}.Must(t, m)
	if err := keepKubeletFlags(r.Env); err != nil {
		t.Fatal(err)
	}
	machinetest.Put(t, m, machine.KubeadmFlags, "KUBELET_KUBEADM_ARGS=\"--register-node=--cloud-provider=external\"\n")
	another := workflow.Inputs{Operation: &Upgrade{target: version.MustParseSemantic("v1.36.3")}}
	later, _ := phasestest.Run{Inputs: another}.Must(t, m) // another process
	if err := keepKubeletFlags(later.Env); err != nil {
		t.Fatal(err)
	}
	if err := kubeletFlags().Run(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	if got := machinetest.Content(m, machine.KubeadmFlags); got != before {
		t.Errorf("got %s", got)
	}
	if strings.Contains(machinetest.Content(m, machine.StateFile), "kubeletFlags") {
		t.Error("they are still noted, and would be given back after the next upgrade")
	}
}

// stepOnNode takes the kubelet of a machine to external cloud mode, or out of it, and returns what that printed.
func stepOnNode(t *testing.T, m *machine.Machine, plain bool, ip string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	o := kubelet.NodeOptions{NodeIP: ip, Timeout: time.Second}
	r := kubelet.NewNode(m, o, workflow.Streams{Out: &out, Err: &out, Getenv: func(string) string { return "" }}, "test")
	if plain {
		err := kubelet.Plain(t.Context(), r, o)
		return out.String(), err
	}
	err := kubelet.External(t.Context(), r, o)
	return out.String(), err
}
