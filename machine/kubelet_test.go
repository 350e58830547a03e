package machine

import "testing"

func TestKubelet_Flag(t *testing.T) {
	k := Kubelet{Args: []string{"kubelet", "--a=1", "--switch", "-v=4", "--b", "2", "--a", "3", "--last"}}
	for name, want := range map[string]string{"a": "3", "b": "2", "switch": "", "last": ""} {
		if got, is := k.Flag(name); !is || got != want {
			t.Errorf("--%s is %q, %v, want %q", name, got, is, want)
		}
	}
	if got, is := k.Flag("none"); is {
		t.Errorf("--none is %q", got)
	}
}
