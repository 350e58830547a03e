package kubeadm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLintNames(t *testing.T) {
	const ours = "apiVersion: ccmadm.dev/v1alpha1\n"
	const head = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n"
	const initDoc = head + "nodeRegistration:\n  name: cp1\n"
	tests := []struct {
		name, text string
		want       []string
	}{
		{
			name: "kubeadm's, in a second document",
			text: initDoc + "---\n" + initDoc + "  kubletExtraArgs: []\n",
			want: []string{`10: unknown field "nodeRegistration.kubletExtraArgs", did you mean "kubeletExtraArgs"?`},
		},
		{
			name: "in an item of a list",
			text: head + "bootstrapTokens:\n- token: abcdef.0123456789abcdef\n  tll: 1h\n",
			want: []string{`5: unknown field "bootstrapTokens[0].tll", did you mean "ttl"?`},
		},
		{
			name: "of another version",
			text: "apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\nencryptionAlgorithm: RSA-2048\n",
			want: []string{`3: unknown field "encryptionAlgorithm"`},
		},
		{
			name: "a kind",
			text: "kind: InitConfiguraton\napiVersion: kubeadm.k8s.io/v1beta4\n",
			want: []string{`1: unknown kind "InitConfiguraton", did you mean "InitConfiguration"?`},
		},
		{
			name: "ours",
			text: ours + "kind: CloudConfiguration\nnodeIp: Auto\n---\n" +
				ours + "kind: AddressPool\nmetadata: {name: a}\nspec: {rages: []}\n",
			want: []string{
				`3: unknown field "nodeIp", did you mean "nodeIP"?`,
				`8: unknown field "spec.rages", did you mean "ranges"?`,
			},
		},
		{
			name: "what programs write",
			text: ours + "kind: NodeAgent\nspec: {x: y}\n---\n" + ours + "kind: AddressPoolList\nitems: []\n",
		},
		{name: "values of a wrong type are another rule's", text: initDoc + "  kubeletExtraArgs: {v: '2'}\n"},
		{name: "a version that is not known", text: strings.Replace(head, "v1beta4", "v1beta9", 1) + "x: y\n"},
		{name: "others", text: "apiVersion: v1\nkind: Pod\nx: y\n---\nx: y\n---\n{{ .Values }}\n"},
		{name: "without a kind", text: "apiVersion: kubeadm.k8s.io/v1beta4\nx: y\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, f := range LintNames("x.yaml", []byte(tt.text)) {
				if f.ID != "A19" || f.File != "x.yaml" || f.Column != 1 {
					t.Errorf("got %+v", f)
				}
				got = append(got, fmt.Sprintf("%d: %s", f.Line, f.Message))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error("-want +got:\n" + diff)
			}
		})
	}
}
