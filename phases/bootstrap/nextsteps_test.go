package bootstrap

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const testKey = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

// The message has kubeadm's order: pod network, control planes, workers.
func TestNextSteps(t *testing.T) {
	const join = "ccmadm join 192.0.2.10:6443 --token a.b --discovery-token-ca-cert-hash sha256:12ab"
	for _, tc := range []struct {
		name  string
		steps nextSteps
		want  []string // what comes between the first and the last section
	}{
		{"one control plane, connected", nextSteps{shared: lacksEndpoint}, nil},
		{"without a network", nextSteps{shared: lacksEndpoint, needsNetwork: true}, []string{installNetwork}},
		{"certificates uploaded", nextSteps{shared: hasEndpoint, needsNetwork: true, key: testKey}, []string{
			installNetwork, "\nFurther control planes join with:\n\n  " + join + " --control-plane --certificate-key " + testKey + "\n", keepKeySecret,
		}},
		{"certificates not uploaded", nextSteps{shared: hasEndpoint}, []string{withoutKey}},
		{"a cluster that does not answer", nextSteps{shared: unknownEndpoint}, []string{withoutKey}},
		{"certificates uploaded for nothing", nextSteps{shared: lacksEndpoint, key: testKey}, []string{withoutEndpoint}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.steps.join = join
			want := useCluster + strings.Join(tc.want, "") + "\nWorkers join with:\n\n  " + join + "\n\n"
			if diff := cmp.Diff(want, tc.steps.text()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if got := strings.Count(tc.steps.text(), "ccmadm join "); tc.steps.key == "" && got != 1 {
				t.Errorf("%d commands to join, and scripts look for the one", got)
			}
		})
	}
}

// What kubeadm prints comes in pieces that end anywhere.
func TestKeyReader(t *testing.T) {
	const announced = "[upload-certs] Storing the certificates\n[upload-certs] Using certificate key:\n"
	for _, tc := range []struct{ name, printed, want string }{
		{"the key", announced + testKey + "\n[mark-control-plane] x\n", testKey},
		{"not printed", "[upload-certs] Skipping phase. Please see --upload-certs\n", ""},
		{"another line after it", announced + "not a key\n" + testKey + "\n", ""},
		{"too short for one", announced + testKey[:32] + "\n", ""},
		{"cut off", announced + testKey, ""},
	} {
		for _, size := range []int{1, 7, len(tc.printed)} {
			var r keyReader
			for text := tc.printed; text != ""; text = text[min(size, len(text)):] {
				if n, err := r.Write([]byte(text[:min(size, len(text))])); err != nil || n == 0 {
					t.Fatal(n, err)
				}
			}
			if r.key != tc.want {
				t.Errorf("%s, in pieces of %d: got %q, want %q", tc.name, size, r.key, tc.want)
			}
		}
	}
}
