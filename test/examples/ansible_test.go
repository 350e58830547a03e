package examples

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// machines are folders that stand for hosts of the inventory, with programs of testdata on them.
type machines struct {
	dir   string
	hosts []string
}

func newMachines(t *testing.T, hosts ...string) machines {
	t.Helper()
	m := machines{t.TempDir(), hosts}
	for _, host := range hosts {
		for _, dir := range []string{"bin", "etc/kubernetes"} {
			if err := os.MkdirAll(filepath.Join(m.dir, host, dir), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	return m
}

// play runs a playbook with the inventory of the example. All hosts are this machine, and have roots of their own.
func (m machines) play(t *testing.T, playbook string, args ...string) (string, error) {
	t.Helper()
	programs, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	of := filepath.Join(m.dir, "{{ inventory_hostname }}")
	settings, err := filepath.Abs(filepath.Join(root, "ansible/kubeadm.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	vars, err := json.Marshal(map[string]any{
		"ansible_connection": "local", "ansible_become": false, "ansible_python_interpreter": "/usr/bin/python3",
		"ccmadm_install": "copy", "ccmadm_binary": programs + "/ccmadm", "ccmadm_path": of + "/bin/ccmadm",
		"ccmadm_kubeadm_path": programs + "/kubeadm", "ccmadm_kubernetes_dir": of + "/etc/kubernetes", "ccmadm_delay": 0,
		"ccmadm_settings": settings,
	})
	if err != nil {
		t.Fatal(err)
	}
	cmd := m.ansible(t, append([]string{"--limit", strings.Join(m.hosts, ","), "--extra-vars", string(vars), playbook}, args...)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// ansible is ansible-playbook, which writes nothing outside of the machines' folder.
func (m machines) ansible(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := debian(t, "ansible-playbook", append([]string{"-i", "inventory.yaml"}, args...)...)
	cmd.Dir = filepath.Join(root, "ansible")
	cmd.Env = append(cmd.Env, "HOME="+m.dir, "ANSIBLE_NOCOLOR=1", "ANSIBLE_LOCAL_TEMP="+m.dir+"/tmp", "ANSIBLE_REMOTE_TEMP="+m.dir+"/tmp")
	return cmd
}

// calls are those of ccmadm on a machine since they were asked for.
func (m machines) calls(t *testing.T, host string) []string {
	t.Helper()
	file := filepath.Join(m.dir, host, "calls")
	text := readFile(t, file)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(strings.ReplaceAll(text, filepath.Join(m.dir, host), "")), "\n")
}

// changed is what the recap of a play has for each host.
func (m machines) changed(t *testing.T, out string) []string {
	t.Helper()
	var list []string
	for _, recap := range regexp.MustCompile(`(?m)^(\w+) +: ok=\d+ +changed=(\d+) .*failed=0`).FindAllStringSubmatch(out, -1) {
		list = append(list, recap[1]+" "+recap[2])
	}
	if len(list) != len(m.hosts) {
		t.Fatalf("the recap has not all of %q without failures:\n%s", m.hosts, out)
	}
	return list
}

func TestAnsible_Syntax(t *testing.T) {
	m := machines{dir: t.TempDir()}
	if out, err := m.ansible(t, "--syntax-check", "site.yaml", "apply.yaml").CombinedOutput(); err != nil {
		t.Errorf("ansible-playbook --syntax-check: %v\n%s", err, out)
	}
	run(t, *ccmadm, "lint", root+"/ansible/kubeadm.yaml")
	run(t, *ccmadm, "config", "validate", "--config", root+"/ansible/kubeadm.yaml")
}

// TestAnsible_Package: the version that is set is the one that apt installs, from its repository alone, although it is older than the one
// that is held.
func TestAnsible_Package(t *testing.T) {
	var tasks []struct {
		Copy struct{ Content, Dest string } `json:"ansible.builtin.copy"`
		Apt  struct {
			Name   string
			Update bool `json:"update_cache"`
			Older  bool `json:"allow_downgrade"`
			Held   bool `json:"allow_change_held_packages"`
		} `json:"ansible.builtin.apt"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "ansible/roles/ccmadm/tasks/install.yaml")), &tasks); err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, task := range tasks {
		if task.Copy.Dest == "/etc/apt/sources.list.d/ccmadm.list" {
			text += task.Copy.Content
		}
		if apt := task.Apt; apt.Name != "" {
			text += apt.Name
			if !apt.Update || !apt.Older || !apt.Held {
				t.Errorf("the package is installed with %+v", apt)
			}
		}
	}
	defaults, err := filepath.Abs(filepath.Join(root, "ansible/roles/ccmadm/defaults/main.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	m := machines{dir: t.TempDir()}
	playbook := filepath.Join(m.dir, "print.yaml")
	play, err := yaml.Marshal([]any{map[string]any{
		"hosts": "localhost", "connection": "local", "gather_facts": false, "vars_files": []string{defaults},
		"tasks": []any{map[string]any{"ansible.builtin.debug": map[string]string{"msg": text}}},
	}})
	if err == nil {
		err = os.WriteFile(playbook, play, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := m.ansible(t, "--extra-vars", "ccmadm_version=v0.2.0-rc.1", playbook).CombinedOutput()
	want := `deb [signed-by=/usr/share/keyrings/ccmadm-archive-keyring.asc] ` +
		`https://github.com/ccmadm/ccmadm/releases/download/v0.2.0-rc.1/ ./\nccmadm=0.2.0~rc.1"`
	if err != nil || !strings.Contains(string(out), want) {
		t.Errorf("error %v, want %s in\n%s", err, want, out)
	}
}

// TestAnsible creates a cluster, and runs again, which changes nothing.
func TestAnsible(t *testing.T) {
	t.Parallel()
	m := newMachines(t, "cp1", "cp2", "w1")
	const join = "join 192.0.2.10:6443 --token abcdef.0123456789abcdef --discovery-token-ca-cert-hash sha256:00"
	const initialize = "init --config /etc/kubernetes/ccmadm-kubeadm.yaml --skip-token-print"
	for i, want := range [][]string{{"cp1 3", "cp2 2", "w1 2"}, {"cp1 0", "cp2 0", "w1 0"}} {
		out, err := m.play(t, "site.yaml")
		if err != nil {
			t.Fatalf("run %d: %v\n%s", i, err, out)
		}
		if got := m.changed(t, out); !slices.Equal(got, want) {
			t.Errorf("run %d changes %q, want %q\n%s", i, got, want, out)
		}
		calls := map[string][]string{
			"cp1": {initialize, "wait --timeout 10m"}, "cp2": {join + " --control-plane --certificate-key 0badc0de"}, "w1": {join},
		}
		if i == 0 {
			calls["cp1"] = slices.Insert(calls["cp1"], 0, initialize) // it was not ready in time
		}
		for host, want := range calls {
			if got := m.calls(t, host); !slices.Equal(got, want) {
				t.Errorf("run %d, %s: calls %q, want %q", i, host, got, want)
			}
			for _, call := range want {
				run(t, *ccmadm, append(strings.Fields(call), "--help")...) // the real one knows the command and its flags
			}
		}
	}
}

// TestAnsible_Apply: settings are applied once, and by the record on the other control planes. What ccmadm refuses fails the play.
func TestAnsible_Apply(t *testing.T) {
	t.Parallel()
	m := newMachines(t, "cp1", "cp2")
	for _, host := range m.hosts {
		script(t, filepath.Join(m.dir, host, "bin/ccmadm"), readFile(t, "testdata/ccmadm"))
	}
	for i, want := range [][]string{{"cp1 2", "cp2 1"}, {"cp1 0", "cp2 0"}} {
		out, err := m.play(t, "apply.yaml")
		if err != nil {
			t.Fatalf("run %d: %v\n%s", i, err, out)
		}
		if got := m.changed(t, out); !slices.Equal(got, want) {
			t.Errorf("run %d changes %q, want %q\n%s", i, got, want, out)
		}
	}
	const file = " -f /etc/kubernetes/ccmadm-cloud.yaml.new"
	for host, want := range map[string][]string{
		"cp1": {"diff" + file, "apply" + file, "apply" + file, "diff" + file}, "cp2": {"diff", "apply", "apply", "diff"},
	} {
		if got := m.calls(t, host); !slices.Equal(got, want) {
			t.Errorf("%s: calls %q, want %q", host, got, want)
		}
	}
	kept := filepath.Join(m.dir, "cp1/etc/kubernetes/ccmadm-cloud.yaml")
	if readFile(t, kept) != read(t, "ansible/kubeadm.yaml") {
		t.Errorf("%s is not the file that was applied", kept)
	}
	if _, err := os.Stat(kept + ".new"); err == nil {
		t.Errorf("%s.new is left", kept)
	}
	if err := os.WriteFile(filepath.Join(m.dir, "cp1/refuse"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := m.play(t, "apply.yaml"); err == nil || !strings.Contains(out, `"rc": 5`) {
		t.Errorf("the play goes on although ccmadm refuses: %v\n%s", err, out)
	}
}

// TestAnsible_ApplyCheck: check mode compares the new settings, shows the difference as a change, and changes nothing.
func TestAnsible_ApplyCheck(t *testing.T) {
	t.Parallel()
	m := newMachines(t, "cp1", "cp2")
	for _, host := range m.hosts {
		script(t, filepath.Join(m.dir, host, "bin/ccmadm"), readFile(t, "testdata/ccmadm"))
	}
	const former = "provider: former\n"
	kept, applied := filepath.Join(m.dir, "cp1/etc/kubernetes/ccmadm-cloud.yaml"), filepath.Join(m.dir, "cp1/applied")
	for path, text := range map[string]string{kept: former, applied: former, filepath.Join(m.dir, "cp2/applied"): ""} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := m.play(t, "apply.yaml", "--check")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got, want := m.changed(t, out), []string{"cp1 2", "cp2 0"}; !slices.Equal(got, want) {
		t.Errorf("the preview changes %q, want %q\n%s", got, want, out)
	}
	if got, want := m.calls(t, "cp1"), []string{"diff -f /etc/kubernetes/ccmadm-cloud.yaml.new"}; !slices.Equal(got, want) {
		t.Errorf("calls %q, want %q", got, want)
	}
	for _, path := range []string{kept, applied} {
		if text := readFile(t, path); text != former {
			t.Errorf("%s was changed to %q", path, text)
		}
	}
}
