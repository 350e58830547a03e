package e2e

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/minors"
)

// breakage is something that works today and ends with the next minor version.
type breakage struct {
	name  string
	plant func(*lab, *testing.T)
	// id and says are what the plan has to say of it, says in the finding's object or message.
	id   finding.ID
	says string
}

// TestUpgrade_Breakages: what ends with the next minor version is planted in a cluster that works, and "ccmadm upgrade plan" names
// each, on one control plane. Of the same cluster before that, it says nothing.
func TestUpgrade_Breakages(t *testing.T) {
	t.Parallel()
	l := upOld(t, "breakages", 1, 1)
	l.must(t, "cp1", l.step.made(ccmadmInit))
	l.must(t, "w1", l.step.made(l.joinCommand(t)))
	l.run(t, "network", "--name", l.name)
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s node cp1 w1")
	l.bring(t, l.step.to)
	l.must(t, "cp1", "mv /usr/bin/kubeadm.new /usr/bin/kubeadm")

	if list := l.planned(t); len(list) > 0 {
		t.Errorf("nothing is planted, and the plan says %v", list)
	}
	planted := l.breakages(t)
	for _, b := range planted {
		b.plant(l, t)
	}
	list := l.planned(t)
	named := 0
	for _, b := range planted {
		if slices.ContainsFunc(list, func(f finding.Finding) bool {
			return f.ID == b.id && strings.Contains(f.Object+": "+f.Message, b.says)
		}) {
			named++
		} else {
			t.Errorf("%s: no %s with %q", b.name, b.id, b.says)
		}
	}
	for _, f := range list {
		t.Logf("%s %s %s: %s", f.Severity, f.ID, f.Object, f.Message)
	}
	t.Logf("%d planted, %d named, by %d findings", len(planted), named, len(list))
}

// planned are the findings of the plan to the next minor.
func (l *lab) planned(t *testing.T) []finding.Finding {
	t.Helper()
	var plan struct {
		Findings []finding.Finding `json:"findings"`
	}
	r := l.sh(t, "cp1", l.step.plan()+" -o json 2>/root/plan.err")
	if err := json.Unmarshal([]byte(r.out), &plan); err != nil {
		t.Fatalf("%v: %s%s", err, r.out, l.must(t, "cp1", "cat /root/plan.err"))
	}
	return plan.Findings
}

// breakages are those of the tables of both minors, and those that no table has.
func (l *lab) breakages(t *testing.T) []breakage {
	t.Helper()
	const kubeadms, kubelets, proxies = "kubeadm-config/ClusterConfiguration", "kubelet-config/kubelet", "kube-proxy/config.conf"
	to := l.step.to
	argument := func(component, name, value string, id finding.ID, says ...string) breakage {
		return breakage{component + " --" + name, func(l *lab, t *testing.T) {
			l.changeDocument(t, kubeadms, func(c map[string]any) { extraArgument(c, component, name, value) })
		}, id, append(says, "--"+name)[0]}
	}
	gate := func(where, component string) breakage {
		name := removedGate(t, component, l.step)
		return breakage{where + ", gate " + name, func(l *lab, t *testing.T) {
			l.changeDocument(t, where, func(c map[string]any) { put(c, true, "featureGates", name) })
		}, finding.GateGone, where[:strings.Index(where, "/")] + ": " + component + " " + to + " does not know the feature gate " + name}
	}
	list := []breakage{
		argument("apiServer", "cloud-provider", "external", "A6"),
		argument("controllerManager", "cloud-provider", "aws", "A7"),
		argument("controllerManager", "cidr-allocator-type", "CloudAllocator", "A7"),
		argument("controllerManager", "cloud-config", "/etc/kubernetes/cloud.conf", "A18"),
		argument("controllerManager", "controllers", "*,-service", "A9"),
		argument("apiServer", "feature-gates", removedGate(t, "kube-apiserver", l.step)+"=true", finding.GateGone, "kube-apiserver "+to+" does not know"),
		argument("scheduler", "feature-gates", removedGate(t, "kube-scheduler", l.step)+"=true", finding.GateGone, "kube-scheduler "+to+" does not know"),
		gate(kubelets, "kubelet"),
		gate(proxies, "kube-proxy"),
		{"a gate that is locked", func(l *lab, t *testing.T) {
			l.changeDocument(t, kubelets, func(c map[string]any) { put(c, false, "featureGates", lockedGate(t, l.step)) })
		}, finding.GateLocked, lockedGate(t, l.step)},
		{"kube-proxy in mode ipvs", func(l *lab, t *testing.T) {
			l.changeDocument(t, proxies, func(c map[string]any) { put(c, "ipvs", "mode") })
		}, finding.ProxyModeEnds, "ipvs"},
		{"a Service with externalIPs", func(l *lab, t *testing.T) {
			l.kubectl(t, "label namespace default ccmadm.dev/external-ips=allow")
			l.apply(t, `{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "outside"}, "spec": {"ports": [{"port": 80}],
 "externalIPs": ["192.0.2.77"]}}`)
		}, finding.ExternalIPs, "default/outside"},
		{"a static pod alone has a gate", func(l *lab, t *testing.T) {
			l.must(t, "cp1", "sed -i 's/^    - kube-controller-manager$/&\\n    - --feature-gates="+removedGate(t, "kube-controller-manager", l.step)+
				"=true/' /etc/kubernetes/manifests/kube-controller-manager.yaml")
		}, finding.GateGone, "/etc/kubernetes/manifests/kube-controller-manager.yaml"},
		{"a file of this machine's kubelet", func(l *lab, t *testing.T) {
			l.must(t, "cp1", "echo 'KUBELET_EXTRA_ARGS=--cloud-config=/x' > /etc/default/kubelet")
		}, "A5", "cp1:/etc/default/kubelet:1"},
		{"a worker's kubelet has a gate", func(l *lab, t *testing.T) {
			l.must(t, "w1", "echo 'KUBELET_EXTRA_ARGS=--feature-gates="+removedGate(t, "kubelet", l.step)+"=true' > /etc/default/kubelet && systemctl restart kubelet")
			l.kubectl(t, "wait --for=condition=Ready --timeout=120s node w1")
		}, finding.GateGone, "w1"},
		{"a static pod refers to a Secret", func(l *lab, t *testing.T) {
			l.must(t, "cp1", `cat > /etc/kubernetes/manifests/vendor.yaml <<'END'
apiVersion: v1
kind: Pod
metadata: {name: vendor, namespace: kube-system}
spec: {containers: [{name: vendor, image: vendor:v1, envFrom: [{secretRef: {name: vendor}}]}]}
END`)
		}, "A15", "cp1:/etc/kubernetes/manifests/vendor.yaml"},
		{"a quota that keeps pods from kube-system", func(l *lab, t *testing.T) {
			l.kubectl(t, "-n kube-system create quota few --hard=pods=1")
			l.kubectl(t, "-n kube-system wait --timeout=180s --for=jsonpath='{.status.hard.pods}'=1 quota/few")
		}, finding.WriteRefused, "ResourceQuota/kube-system/few"},
		{"every Node has a taint", func(l *lab, t *testing.T) {
			l.kubectl(t, "taint node --all maintenance=now:NoSchedule")
		}, finding.NoNodeForJob, "maintenance"},
	}
	for component, field := range map[string]string{"kube-controller-manager": "controllerManager", "etcd": "etcd"} {
		for i, name := range removedFlags(component, l.step) {
			if i < 2 {
				list = append(list, argument(field, name, "1", finding.FlagGone))
			}
		}
	}
	if flags := removedFlags("kubelet", l.step); len(flags) > 0 {
		list = append(list, breakage{"a kubelet's flag", func(l *lab, t *testing.T) {
			l.must(t, "cp1", "mkdir -p /etc/sysconfig && echo 'KUBELET_EXTRA_ARGS=--"+flags[0]+"=1' > /etc/sysconfig/kubelet")
		}, finding.FlagGone, "cp1:/etc/sysconfig/kubelet:1"})
	}
	for _, name := range l.step.now().Kubeadm.Gates {
		if refusal, _ := minors.Load().KubeadmGate(name, to); refusal == minors.Removed {
			list = append(list, breakage{"kubeadm's gate " + name, func(l *lab, t *testing.T) {
				l.changeDocument(t, kubeadms, func(c map[string]any) { put(c, true, "featureGates", name) })
			}, finding.GateGone, name})
			break
		}
	}
	if known := minors.Known(); slices.Index(known, to) >= slices.Index(known, "1.37") { // in which it got another meaning
		list = append(list, breakage{"eventRecordQPS: 0", func(l *lab, t *testing.T) {
			l.changeDocument(t, kubelets, func(c map[string]any) { put(c, 0, "eventRecordQPS") })
		}, finding.MeansElse, "eventRecordQPS"})
	}
	return list
}

// changeDocument changes one in a ConfigMap of kube-system, NAME/KEY.
func (l *lab) changeDocument(t *testing.T, where string, change func(map[string]any)) {
	t.Helper()
	name, key, _ := strings.Cut(where, "/")
	var object map[string]any
	if err := json.Unmarshal([]byte(l.kubectl(t, "-n kube-system get configmap "+name+" -o json")), &object); err != nil {
		t.Fatal(err)
	}
	data, document := object["data"].(map[string]any), map[string]any{}
	if err := yaml.Unmarshal([]byte(data[key].(string)), &document); err != nil {
		t.Fatal(err)
	}
	change(document)
	text, err := yaml.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	data[key] = string(text)
	changed, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	l.apply(t, string(changed))
}

// put sets a field of a document.
func put(document map[string]any, value any, path ...string) {
	for _, name := range path[:len(path)-1] {
		inner, is := document[name].(map[string]any)
		if !is {
			inner = map[string]any{}
			document[name] = inner
		}
		document = inner
	}
	document[path[len(path)-1]] = value
}

// extraArgument adds one to a component of kubeadm's ClusterConfiguration.
func extraArgument(c map[string]any, component, name, value string) {
	of, is := c[component].(map[string]any)
	if !is {
		of = map[string]any{}
		c[component] = of
	}
	if component == "etcd" {
		of = of["local"].(map[string]any)
	}
	list, _ := of["extraArgs"].([]any)
	of["extraArgs"] = append(list, map[string]any{"name": name, "value": value})
}

// now is what is known of the minor version that is upgraded.
func (s minorStep) now() minors.Minor {
	m, _ := minors.Load().Of(s.from)
	return m
}

// removedGate is one that a component has, on by default, and that the next minor's does not.
func removedGate(t *testing.T, component string, s minorStep) string {
	t.Helper()
	return gateThat(t, component, "true", minors.Removed, s)
}

// lockedGate is one of the kubelet that may be turned off, and in the next minor may not.
func lockedGate(t *testing.T, s minorStep) string {
	t.Helper()
	return gateThat(t, "kubelet", "false", minors.Locked, s)
}

func gateThat(t *testing.T, component, value string, becomes minors.Refusal, s minorStep) string {
	t.Helper()
	history := minors.Load()
	gates := s.now().FeatureGates
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		now, _ := history.Gate(component, name, value, s.from)
		then, _ := history.Gate(component, name, value, s.to)
		if gates[name].Default && now == minors.Accepted && then == becomes {
			return name
		}
	}
	t.Fatalf("no feature gate of %s is %s in %s", component, becomes, s.to)
	return ""
}

// removedFlags are those of a component that the next minor's has no more.
func removedFlags(component string, s minorStep) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(s.now().Flags[component])) {
		if refusal, _ := minors.Load().Flag(component, name, s.to); refusal == minors.Removed {
			list = append(list, name)
		}
	}
	return list
}
