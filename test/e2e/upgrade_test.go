package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const (
	// upgradeConfiguration is kubeadm's: etcd's restarts would take half of the time, and nothing here looks at it.
	upgradeConfiguration = `apiVersion: kubeadm.k8s.io/v1beta4
kind: UpgradeConfiguration
apply: {etcdUpgrade: false, ignorePreflightErrors: [SystemVerification]}
node: {etcdUpgrade: false, ignorePreflightErrors: [SystemVerification]}
`
	// poisoned are arguments that end components of 1.33 and newer, and GATE stands for a feature gate.
	poisoned = admin + "-n kube-system get configmap kubeadm-config -o yaml | " +
		`sed -E 's/^(    controllerManager:) *\{\}/\1 {extraArgs: [{name: cloud-provider, value: aws}]}/; ` +
		`s/^      extraArgs:$/&\n      - {name: cloud-provider, value: external}/' | ` + admin + "replace -f - && " +
		admin + "-n kube-system get configmap kubelet-config -o yaml | " +
		`sed 's/^    failSwapOn: false/&\n    featureGates: {GATE: true}/' | ` + admin + "replace -f -"
	// leaseLimit is how long nobody may lead while an API server answers. The manager ends where none does, and its kubelet
	// waits longer each time before it starts it again: 31 s were measured with one control plane and two kills.
	// With two, another one leads once the Lease of 15 s has ended and it has asked again: 18.5 s were measured, 20.8 beside other clusters.
	leaseLimit, leaseLimitAlone = 25 * time.Second, time.Minute
)

// TestUpgrade: a cluster whose configuration is poisoned comes to the next minor, by plain kubeadm not, and by ccmadm,
// which is killed twice on the way. A client asks a pod all the time.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	l := upOld(t, "upgrade", 1, 3, "--binary", buildProgram(t, "requester"))
	next := l.managers(t)
	l.must(t, "cp1", withAudit)
	l.must(t, "cp1", strings.Replace(l.step.made(ccmadmInit), kubeadmYAML, "/etc/lab/audited.yaml", 1)+" --profile /root/profile.yaml")
	join := l.step.made(l.joinCommand(t))
	l.must(t, "w1", join)
	plain := strings.Replace(join, "ccmadm join", "kubeadm join", 1)
	l.must(t, "w2", "ccmadm join phase kubelet && "+plain) // with the drop-in
	l.connectPods(t, "cp1", "w1", "w2")
	l.kubectl(t, "run page --image="+echoImage+" --image-pull-policy=Never "+
		`--overrides='{"spec":{"nodeName":"w1","hostNetwork":true}}'`)
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s pod/page")
	l.must(t, "cp1", strings.Replace(poisoned, "GATE", l.step.gate, 1))
	l.bring(t, l.step.to)
	l.writeFiles(t, map[string]string{"/root/upgrade.yaml": upgradeConfiguration})
	command := l.step.apply() + " --config /root/upgrade.yaml"

	l.expectRefusedUpgrades(t, command)
	l.must(t, "cp1", "mv /usr/bin/kubeadm.new /usr/bin/kubeadm")
	t.Run("plain kubeadm stumbles", func(t *testing.T) {
		r := l.sh(t, "cp1", `(cat /root/upgrade.yaml; echo 'timeouts: {upgradeManifests: 15s}') > /tmp/plain.yaml; `+
			"kubeadm upgrade apply "+l.step.version+" --yes --config /tmp/plain.yaml")
		if r.code == 0 || !strings.Contains(r.out, "kube-apiserver") {
			t.Errorf("exit status %d\n%s", r.code, r.out)
		}
		l.must(t, "cp1", "until "+admin+"get --raw /readyz; do sleep 1; done")
	})
	eventually(t, 2*time.Minute, "the manager leads again, without which no upgrade begins", func() bool {
		r := l.sh(t, "cp1", l.step.plan())
		return r.code == 6
	})
	l.load(t, next)
	identity := l.must(t, "cp1", "sha256sum < /etc/kubernetes/cloud-controller-manager.conf")
	start := time.Now()
	l.underLoadOf(t, "http://"+l.address(t, "w1")+":8080/", "upgrade apply", func() string {
		l.killWhen(t, command,
			"grep -q kube-apiserver:v"+l.step.to+". /etc/kubernetes/manifests/kube-apiserver.yaml && sleep 2")
		l.killWhen(t, command, "grep -q upgraded: /etc/ccmadm/machine.yaml")
		return l.upgradeDespiteProxy(t, "cp1", command)
	})
	l.expectLedThroughout(t, start, leaseLimitAlone, "cp1")
	l.expectManagers(t, l.step.next(), "cp1")
	if l.must(t, "cp1", "sha256sum < /etc/kubernetes/cloud-controller-manager.conf") == identity {
		t.Error("the manager's certificate was not renewed")
	}
	l.expectAfterUpgrade(t, command)
	l.expectUpgradedWorkers(t)
	l.expectInitialized(t, "cp1", "w1", "w2")
}

const ccmManifest = "/etc/kubernetes/manifests/cloud-controller-manager.yaml"

// expectRefusedUpgrades asks for what is refused, with the former kubeadm. Nothing changes.
func (l *lab) expectRefusedUpgrades(t *testing.T, command string) {
	for _, tc := range []again{
		{
			name: "kubeadm of the former version",
			run:  command, want: "the installed kubeadm is of v" + l.step.from + ".",
		},
		{
			name: "two minors up",
			run:  "ccmadm upgrade apply v" + l.step.beyond + ".0", want: "more than one minor version newer",
		},
		{
			name:  "an image that does not exist",
			given: "cp /usr/bin/kubeadm /root/kubeadm.old; cp /usr/bin/kubeadm.new /usr/bin/kubeadm",
			run:   command, want: "its image cannot be pulled", restore: "mv /root/kubeadm.old /usr/bin/kubeadm",
		},
		{
			name:  "/etc/kubernetes is read-only",
			given: "mount --bind /etc/kubernetes /etc/kubernetes && mount -o remount,ro,bind /etc/kubernetes",
			run:   command, want: "/etc/kubernetes is on a read-only file system", restore: "umount /etc/kubernetes",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.given != "" {
				l.must(t, "cp1", tc.given)
				defer l.must(t, "cp1", tc.restore)
			}
			const seen = keptFiles + "; " + admin +
				"-n kube-system get configmap kubeadm-config -o jsonpath='{.metadata.resourceVersion}'"
			before := l.must(t, "cp1", seen)
			if r := l.sh(t, "cp1", tc.run); r.code != 3 || !strings.Contains(r.out, tc.want) {
				t.Errorf("exit status %d, want 3 and %q\n%s", r.code, tc.want, r.out)
			}
			if after := l.must(t, "cp1", seen); after != before {
				t.Errorf("before\n%s\nafter\n%s", before, after)
			}
		})
	}
}

// schedulerLeads waits until pods are scheduled again: behind an API server that was gone, that of kubeadm's Job may
// not be within the 15 s that kubeadm 1.35 gives it.
func (l *lab) schedulerLeads(t *testing.T) {
	t.Helper()
	var last string
	eventually(t, 2*time.Minute, "kube-scheduler renews its Lease", func() bool {
		r := l.sh(t, "cp1", admin+"-n kube-system get lease kube-scheduler -o jsonpath='{.spec.renewTime}'")
		renewed := r.code == 0 && last != "" && r.out != last
		if r.code == 0 {
			last = r.out
		}
		return renewed
	})
}

// killWhen runs the command, and kills it once a script on the machine succeeds.
func (l *lab) killWhen(t *testing.T, command, script string) {
	t.Helper()
	l.schedulerLeads(t)
	r := l.sh(t, "cp1", fmt.Sprintf("(until %s; do sleep 0.1; done; pkill -KILL -x ccmadm) & ", script)+
		command+"; code=$?; kill %1; exit $code")
	t.Logf("killed:\n%s", r.out)
	if r.code != 137 {
		t.Fatalf("exit status %d, it was not killed\n%s", r.code, r.out)
	}
}

const restartProxies = "-n kube-system delete pod -l k8s-app=kube-proxy"

// upgradeDespiteProxy upgrades a machine. kube-proxy in nftables mode may have lost its Services after its roll-out,
// which the run finds: then it is done as it says. It returns what was said, in either run.
func (l *lab) upgradeDespiteProxy(t *testing.T, node, command string) string {
	t.Helper()
	r, former := l.sh(t, node, command), ""
	const says = "kube-proxy may have lost its rules: kubectl -n kube-system delete pod/kube-proxy-"
	waited := r.code == 4 || r.code == 1 && strings.Contains(command, "--via") // then other machines are left
	if waited && strings.Contains(r.out, says) {
		t.Logf("%s: kube-proxy has lost its rules", node)
		l.kubectl(t, restartProxies)
		r, former = l.sh(t, node, command), r.out
	}
	if r.code != 0 || !strings.Contains(r.out, "[service] Service/default/kubernetes answers at ") {
		t.Fatalf("%s: %s: exit status %d\n%s", node, command, r.code, r.out)
	}
	return former + r.out
}

// expectManagers compares the releases of static pods, which ask the API server of their machine.
func (l *lab) expectManagers(t *testing.T, tag string, nodes ...string) {
	t.Helper()
	for _, node := range nodes {
		if got := l.must(t, node, "grep image: "+ccmManifest); !strings.Contains(got, "lab.local/ccm:"+tag) {
			t.Errorf("%s: the manager is %s, want %s", node, strings.TrimSpace(got), tag)
		}
	}
}

// expectAfterUpgrade: a second run changes nothing, and the manager goes back and forward.
func (l *lab) expectAfterUpgrade(t *testing.T, command string) {
	t.Helper()
	for _, tc := range []struct{ name, run string }{
		{"what was removed is in the journal", "ccmadm journal -o json | grep -q 'name: cloud-provider'"},
		{"the record has the version", "grep 'kubernetesVersion: " + l.step.version + "' /etc/ccmadm/record.yaml"},
		{"nothing has drifted", "ccmadm diff"},
		{"a second run changes nothing", "n=$(ccmadm journal | wc -l); " + command + "; [ $(ccmadm journal | wc -l) = $n ]"},
		{"back", "ccmadm rollback --yes 2>&1 | grep 'Kubernetes stays' && grep lab.local/ccm:" + l.step.former() + " " + ccmManifest},
		{"forward", command + " && grep lab.local/ccm:" + l.step.next() + " " + ccmManifest},
	} {
		t.Run(tc.name, func(t *testing.T) { l.must(t, "cp1", tc.run) })
	}
}

// expectUpgradedWorkers upgrades a worker whose flags kubeadm mangles, and one with the drop-in.
func (l *lab) expectUpgradedWorkers(t *testing.T) {
	t.Helper()
	const bare = "rm -f /var/lib/kubelet/instance-config.yaml; sed -i 's,ARGS=\",&--container-runtime-endpoint=" +
		"unix:///run/containerd/containerd.sock --register-node ,' /var/lib/kubelet/kubeadm-flags.env; "
	for node, given := range map[string]string{"w1": bare, "w2": ""} {
		t.Run(node, func(t *testing.T) {
			if r := l.sh(t, node, "ccmadm upgrade node"); r.code != 3 {
				t.Errorf("with the former kubeadm: exit status %d\n%s", r.code, r.out)
			}
			l.must(t, node, given+"mv /usr/bin/kubeadm.new /usr/bin/kubeadm; cat > /root/upgrade.yaml <<'END'\n"+
				upgradeConfiguration+"END")
			out := l.upgradeDespiteProxy(t, node, "ccmadm upgrade node --config /root/upgrade.yaml")
			t.Logf("%s", out)
			l.must(t, node, "systemctl stop kubelet; mv /usr/bin/kubelet.new /usr/bin/kubelet; systemctl start kubelet")
			eventually(t, time.Minute, "the kubelet is of "+l.step.to, func() bool {
				has := l.kubectl(t, "get node "+node+" -o jsonpath='{.status.nodeInfo.kubeletVersion}'")
				return strings.HasPrefix(has, "v"+l.step.to+".")
			})
			flags := l.must(t, node, kubeletFlags)
			has := func(flag string) bool { return strings.Contains(flags, flag) }
			if !has("--cloud-provider=external") || !has("--node-ip="+l.address(t, node)) || has("--register-node ") != (given != "") {
				t.Errorf("the kubelet runs with %s", flags)
			}
		})
	}
}
