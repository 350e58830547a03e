package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/manifests/manifeststest"
	"github.com/ccmadm/ccmadm/templates"
	"github.com/ccmadm/ccmadm/test/lab/image"
)

const standin = "lab.local/standin:1"

// Every profile on a control plane that has no CNI and carries all the taints of a bootstrap: its pod is scheduled or
// started by the kubelet, gets its ports, and finds its configuration and its credentials where its arguments and its
// environment say. What runs is a stand-in for the vendor's program.
func TestCatalogue_Machine(t *testing.T) {
	t.Parallel()
	l := taintedControlPlane(t, "catalogue")
	l.loadStandins(t)
	l.must(t, "cp1", "ccmadm init phase kubeconfig --mode StaticPod")
	for _, mode := range []templates.Mode{templates.StaticPod, templates.DaemonSet, templates.Deployment} {
		for _, name := range templates.Names() {
			p, err := templates.Load(name)
			if err != nil {
				t.Fatal(err)
			}
			// A Deployment's pod differs from a DaemonSet's by its owner only: those that prefer it are enough.
			if p.Supports(mode) && p.Has(templates.Nodes) && (mode != templates.Deployment || p.Modes[0] == mode) {
				t.Run(fmt.Sprintf("%s/%s", name, mode), func(t *testing.T) { l.runStandin(t, p, mode) })
			}
		}
		l.must(t, "cp1", "rm -f "+machine.CCMManifest)
	}
	t.Run("rotation", func(t *testing.T) {
		l.rotate(t, "hetzner", templates.DaemonSet, "token")
		l.rotate(t, "openstack", templates.StaticPod, "cloud.conf")
	})
	l.expectAllTaints(t)
}

// rotate gives a provider that runs another credential, by the phases that installed it.
func (l *lab) rotate(t *testing.T, provider string, mode templates.Mode, key string) {
	t.Helper()
	p, err := templates.Load(provider)
	if err != nil {
		t.Fatal(err)
	}
	l.runStandin(t, p, mode)
	uid := func() string {
		return l.kubectl(t, "-n kube-system get pod -l "+podsOf(p, mode)+" -o jsonpath='{.items[*].metadata.uid}'")
	}
	old, file := uid(), path.Join("/root", p.Name, key)
	l.must(t, "cp1", fmt.Sprintf("sed -i '$s/$/ rotated/' %s\n%s", file, phasesOf(p, mode)))
	content := strings.TrimSpace(l.must(t, "cp1", "cat "+file))
	start := time.Now()
	eventually(t, time.Minute, "a pod that finds the other credential", func() bool { return l.standinReport(t, p, mode).has(content) })
	rotated := uid()
	if rotated == old {
		t.Errorf("%s: the pod has not been replaced", provider)
	}
	t.Logf("%s as %s: a pod with the other credential after %.1f s", provider, mode, time.Since(start).Seconds())
	state := func() string {
		return l.must(t, "cp1", treeHash) + l.kubectl(t, "-n kube-system get secret,daemonset,configmap -o jsonpath='{range .items[*]}{.metadata.name} {.metadata.generation} {.data}{end}'")
	}
	before := state()
	if again := l.must(t, "cp1", phasesOf(p, mode)); strings.Contains(again, "written") || strings.Contains(again, "configured") {
		t.Errorf("%s: the same phases again change something:\n%s", provider, again)
	}
	if state() != before || uid() != rotated {
		t.Errorf("%s: the same phases again have changed something", provider)
	}
}

// taintedControlPlane is a machine as every cloud-controller-manager finds the first one.
func taintedControlPlane(t *testing.T, name string) *lab {
	t.Helper()
	l := up(t, name, 1, 0)
	l.must(t, "cp1", "ccmadm init --mode Manual --config "+kubeadmYAML)
	// The condition of a cloud whose routes are not there yet; the node lifecycle controller makes a taint of it.
	l.kubectl(t, `patch node cp1 --subresource=status -p '{"status":{"conditions":[{"type":"NetworkUnavailable","status":"True","reason":"NoRoute"}]}}'`)
	l.expectAllTaints(t)
	return l
}

func (l *lab) expectAllTaints(t *testing.T) {
	t.Helper()
	want := []string{taint, controlPlane, corev1.TaintNodeNotReady, corev1.TaintNodeNetworkUnavailable}
	eventually(t, 30*time.Second, fmt.Sprintf("taints %v", want), func() bool {
		var got []string
		for _, tt := range l.nodesNow(t)["cp1"].Spec.Taints {
			got = append(got, tt.Key)
		}
		return !slices.ContainsFunc(want, func(key string) bool { return !slices.Contains(got, key) })
	})
}

// loadStandins packs the stand-in under its own name and, where a provider has agents, under those of its images.
func (l *lab) loadStandins(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	program := buildProgram(t, "standin")
	files := map[string]string{"/standin": program}
	names := []string{standin}
	for _, name := range templates.Names() {
		p, err := templates.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Command) > 0 {
			files[p.Command[0]] = program
		}
		if len(p.Agents) > 0 {
			refs, err := p.Images(manifeststest.Values(p, p.Modes[0], "v"+*kubernetesMinor+".0", false))
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, refs...)
		}
	}
	for i, name := range names {
		archive := filepath.Join(dir, fmt.Sprintf("%d.tar", i))
		if err := image.Write(archive, image.Spec{Name: name, Files: files, Entrypoint: []string{"/standin"}}); err != nil {
			t.Fatal(err)
		}
		l.run(t, "load", "--name", l.name, archive)
	}
}

// runStandin configures the provider as a user would, with all that it can be given, and looks at what its pod finds.
func (l *lab) runStandin(t *testing.T, p *templates.Profile, mode templates.Mode) {
	v := manifeststest.Values(p, mode, "v"+*kubernetesMinor+".0", true)
	files := manifeststest.Files(p, v)
	c := config.CloudConfiguration{Provider: p.Name, Mode: config.Mode(mode), ClusterName: "ber1", ControllerManager: config.ControllerManager{Image: standin, ExtraArgs: append(v.ExtraArgs, marksOf(p, mode)...)}}
	if len(p.Agents) > 0 { // whose images no field names: all are named by a tag, which may be of a release that is still to come
		c.ControllerManager.Image, c.ControllerManager.Version = "", v.ImageTag
	}
	var script strings.Builder
	fmt.Fprintf(&script, "set -e; mkdir -p /root/%s\n", p.Name)
	for name, content := range files {
		file := path.Join("/root", p.Name, name)
		fmt.Fprintf(&script, "install -m 600 /dev/null %[1]s; cat > %[1]s <<'END'\n%[2]s\nEND\n", file, strings.TrimRight(string(content), "\n"))
		if p.Config != nil && name == p.Config.File {
			c.CloudConfig.File = file
		} else {
			c.Credentials = append(c.Credentials, config.Credential{Key: name, File: file})
		}
	}
	c.APIVersion, c.Kind = v1alpha1.APIVersion, config.ConfigKind
	document, err := yaml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&script, "cat > /root/%[1]s.yaml <<'END'\n%[2]sEND\n", p.Name, document)
	if mode == templates.StaticPod {
		// A kubelet comes back only after ten seconds to a static pod that has to wait for the one before it; a new one
		// does not know that one.
		script.WriteString("systemctl stop kubelet; rm -f " + machine.CCMManifest + "; crictl pods -q --name cloud-controller-manager | xargs -r crictl rmp -f >/dev/null\n")
	}
	script.WriteString(phasesOf(p, mode))
	if mode == templates.StaticPod {
		script.WriteString("systemctl start kubelet\n")
	}
	l.must(t, "cp1", script.String())
	r := l.standinReport(t, p, mode)
	for name, content := range files {
		if !r.has(strings.TrimRight(string(content), "\n")) && refersTo(p, name) {
			t.Errorf("the pod does not find %s: files %v, environment %v", name, r.Files, r.Env)
		}
	}
}

// phasesOf are the commands that install what is configured, or bring it up to date.
func phasesOf(p *templates.Profile, mode templates.Mode) (script string) {
	steps := []string{"rbac", "cloud-config", "addon"}
	if mode == templates.StaticPod {
		steps = append(steps, "control-plane")
	}
	for _, phase := range steps {
		script += fmt.Sprintf("ccmadm init phase %s --config /root/%s.yaml\n", phase, p.Name)
	}
	return script
}

// podsOf selects the provider's pods.
func podsOf(p *templates.Profile, mode templates.Mode) string {
	if mode == templates.StaticPod {
		return "component=cloud-controller-manager"
	}
	return "app.kubernetes.io/name=" + p.Name + "-cloud-controller-manager"
}

// marksOf are arguments by which this test's pod is told from the one before it, and where its program listens.
func marksOf(p *templates.Profile, mode templates.Mode) []string {
	return []string{fmt.Sprintf("--mark=%s-%s", p.Name, mode), fmt.Sprintf("--listen=%d", cmp.Or(p.Health.Port, 10258))}
}

// refersTo tells whether the pod is told of the file; of the others it knows by their contents, or through the API.
func refersTo(p *templates.Profile, name string) bool {
	for _, e := range p.Env {
		if e.Credential == name || strings.Contains(e.Value, "${file:"+name+"}") {
			return true
		}
	}
	return p.Config != nil && p.Config.File == name || strings.Contains(strings.Join(p.Args, " "), "${file:"+name+"}")
}

type standinReport struct {
	Args   []string
	Files  map[string]string
	Env    map[string]string
	Server string
	Port   string
}

// has tells whether a file or a variable has the content.
func (r standinReport) has(content string) bool {
	for _, found := range []map[string]string{r.Files, r.Env} {
		for _, value := range found {
			if strings.TrimRight(value, "\n") == content {
				return true
			}
		}
	}
	return false
}

// standinReport waits until the pod is ready, its probe included, and reads what it says.
func (l *lab) standinReport(t *testing.T, p *templates.Profile, mode templates.Mode) (r standinReport) {
	t.Helper()
	selector := podsOf(p, mode)
	eventually(t, time.Minute, "a ready pod of provider "+p.Name, func() bool {
		const ready = `-o jsonpath='{range .items[*]}{.status.containerStatuses[*].ready} {.spec.containers[0].args}{"\n"}{end}'`
		kubectl := "kubectl --kubeconfig /etc/kubernetes/admin.conf -n kube-system "
		pods := l.sh(t, "cp1", kubectl+"get pod -l "+selector+" "+ready).out
		if strings.Count(pods, "\n") != 1 || !strings.HasPrefix(pods, "true") || !strings.Contains(pods, marksOf(p, mode)[0]) {
			return false
		}
		r = standinReport{}
		return json.Unmarshal([]byte(l.sh(t, "cp1", kubectl+"logs -l "+selector+" --tail=1").out), &r) == nil
	})
	return r
}
