package kubeadm

import "testing"

func TestEditTold(t *testing.T) {
	const kind = "\nkind: ClusterConfiguration\n"
	const v3, v4 = "apiVersion: kubeadm.k8s.io/v1beta3" + kind, "apiVersion: kubeadm.k8s.io/v1beta4" + kind
	for name, tt := range map[string]struct{ text, want string }{
		"a list": {
			text: v4 + "apiServer:\n  extraArgs:\n  - name: gone\n    value: x\n" +
				"  - {name: some, value: a}\n  - {name: kept, value: y}\nfeatureGates: {Old: true, New: true}\n",
			want: v4 + "apiServer:\n  extraArgs:\n" +
				"  - {name: some, value: b}\n  - {name: kept, value: y}\nfeatureGates: {New: true}\n",
		},
		"a mapping, as in v1beta3": {
			text: v3 + "apiServer:\n  extraArgs:\n    gone: x\n    some: a\n",
			want: v3 + "apiServer:\n  extraArgs:\n    some: b\n",
		},
		"the last one takes along what held it": {
			text: v4 + "scheduler: {extraArgs: [{name: gone, value: x}]}\n",
			want: v4,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Parse("k.yaml", []byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			err = f.EditTold(func(a Told) (string, bool) {
				if a.Name == "some" {
					return "b", true
				}
				return a.Value, a.Name != "gone"
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := f.DropFeatureGates("Old", "NotThere"); err != nil {
				t.Fatal(err)
			}
			if got := string(f.Bytes()); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}
