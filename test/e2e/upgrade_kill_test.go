package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// stations are what a run of upgrade prints on its way, in their order, as grep -E knows them; behind each of them it
// is killed at any moment of the time that it may take. Behind kubeadmEnds it is ours alone.
var stations = []struct {
	says string
	lets time.Duration
}{
	{`^\[preflight\] Kubernetes v`, 4 * time.Second},
	{`^\[preflight\] having `, 3 * time.Second},
	{`^\[kubeadm\] running `, 4 * time.Second},
	{`Preparing for "etcd" upgrade`, 15 * time.Second},
	{`Preparing for "kube-apiserver" upgrade`, 15 * time.Second},
	{`Preparing for "kube-controller-manager" upgrade`, 10 * time.Second},
	{`Preparing for "kube-scheduler" upgrade`, 10 * time.Second},
	{`^\[upgrade/(kubelet-config|kubeconfig|addon|bootstrap-token)\]`, time.Second},
	{`^\[kubelet-flags\]`, 500 * time.Millisecond},
	{`^\[certificate\]`, 500 * time.Millisecond},
	{`^\[control-plane\]`, 2 * time.Second},
	{`^\[rollout\]`, 200 * time.Millisecond},
}

// kubeadmEnds is the first station behind kubeadm's half.
const kubeadmEnds = 8

// moment is some time behind a station, or behind a later one where that is passed over.
type moment struct {
	station int
	after   time.Duration
}

// says is the station's line, or that of any later one, in single quotes for a shell.
func (m moment) says() string {
	var list []string
	for _, s := range stations[m.station:] {
		list = append(list, s.says)
	}
	return "'" + strings.Join(list, "|") + "'"
}

func (m moment) String() string {
	return fmt.Sprintf("%s behind %s", m.after.Round(time.Millisecond), stations[m.station].says)
}

// TestUpgrade_Crash_AtRandom upgrades two control planes to the next minor, etcd too, and kills each command with
// SIGKILL at random moments, later and later, sometimes ccmadm alone and sometimes kubeadm with it: each run meets what
// the one before has left. In the middle of each no API server answers for a while, and the second control plane loses
// its power. Then the same command completes. No manager is ever newer than the API server of its machine.
func TestUpgrade_Crash_AtRandom(t *testing.T) {
	t.Parallel()
	t.Logf("-kills %d -kill-seed %d", *kills, *killSeed)
	l := upOld(t, "upkills", 2, 0)
	next := l.managers(t)
	l.must(t, "cp1", sharedEndpoint)
	l.behindReadyz(t)
	out := l.must(t, "cp1", strings.Replace(l.step.made(ccmadmInit), kubeadmYAML, "/tmp/three.yaml", 1)+
		" --upload-certs --profile /root/profile.yaml")
	l.must(t, "cp2", l.step.made(l.joinCommand(t))+" --control-plane --certificate-key "+certificateKey(out))
	l.run(t, "network", "--name", l.name)
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s node cp1 cp2")
	l.bring(t, l.step.to)
	l.load(t, next)
	withEtcd := strings.ReplaceAll(upgradeConfiguration, "etcdUpgrade: false, ", "")
	for _, node := range l.nodes {
		l.must(t, node, "mv /usr/bin/kubeadm.new /usr/bin/kubeadm; cat > /root/upgrade.yaml <<'END'\n"+withEtcd+"END")
		l.watchSkew(t, node)
	}
	for n, v := range []upgraded{
		{node: "cp1", command: l.step.apply() + " --config /root/upgrade.yaml"},
		{node: "cp2", command: "ccmadm upgrade node --config /root/upgrade.yaml", losesPower: true},
	} {
		v.lab, v.random = l, rand.New(rand.NewPCG(*killSeed, uint64(n)+11))
		v.survives(t)
	}
	l.expectAllUpgraded(t)
}

// upgraded is a control plane on its way.
type upgraded struct {
	*lab

	node, command string
	losesPower    bool
	random        *rand.Rand
}

// survives kills the command as often as was asked for, and has it complete then.
func (u *upgraded) survives(t *testing.T) {
	t.Helper()
	start, hits := time.Now(), 0
	for n, m := range u.moments() {
		if n == *kills/3 {
			u.disturb(t, "no API server", m, func() { u.silence(t) })
			if u.losesPower {
				u.disturb(t, "power cut", m, func() { u.powerCut(t) })
			}
		}
		for try := 0; !u.kill(t, n+1, m); try++ {
			if try == 4 {
				t.Fatalf("%s: kill %d came too late %d times", u.node, n+1, try+1)
			}
			u.must(t, u.node, "ccmadm rollback --yes") // so that there is something to be done again
			m = at(kubeadmEnds + u.random.Float64()*float64(len(stations)-kubeadmEnds))
		}
		hits++
	}
	start, disturbed := time.Now(), time.Since(start)
	u.upgradeDespiteProxy(t, u.node, u.command)
	t.Logf("%s: %d kills met %s at work, in %.0f s; then it took %.0f s to its end", u.node, hits, u.command,
		disturbed.Seconds(), time.Since(start).Seconds())
}

// moments are as many as kills were asked for, one in each part of the way.
func (u *upgraded) moments() []moment {
	list, part := make([]moment, *kills), float64(len(stations))/float64(*kills)
	for i := range list {
		list[i] = at((float64(i) + u.random.Float64()) * part)
	}
	return list
}

// at is a moment of the way, from 0 to the number of stations.
func at(way float64) moment {
	n := min(int(way), len(stations)-1)
	return moment{station: n, after: time.Duration((way - float64(n)) * float64(stations[n].lets))}
}

// kill says whether the command was still at work.
func (u *upgraded) kill(t *testing.T, n int, m moment) bool {
	t.Helper()
	whom, what := "$pid", "ccmadm"
	if u.random.IntN(2) == 0 {
		whom, what = "-$pid", "ccmadm and kubeadm"
	}
	start := time.Now()
	r := u.killed(t, m, whom)
	t.Logf("%s: kill %d of %s, %s, %.0f s: exit status %d at: %s", u.node, n, what, m, time.Since(start).Seconds(),
		r.code, r.out)
	switch {
	case r.code == 137, r.code == 0:
	case r.code == 4 && strings.Contains(r.out, "kube-proxy may have lost its rules"):
		u.kubectl(t, restartProxies)
	default:
		t.Fatalf("%s: it ended before it was killed:\n%s", u.node, u.must(t, u.node, "cat /root/out"))
	}
	return r.code == 137
}

// killed runs the command and kills it at a moment. It returns the last line that was printed.
func (u *upgraded) killed(t *testing.T, m moment, whom string) result {
	t.Helper()
	r := u.sh(t, u.node, fmt.Sprintf(`rm -f /root/out; setsid %s > /root/out 2>&1 & pid=$!
until grep -qsE %s /root/out || ! kill -0 $pid 2>/dev/null; do sleep 0.05; done
sleep %.3f; kill -9 -- %s 2>/dev/null; { wait $pid; } 2>/dev/null; code=$?
tail -n 1 /root/out | cut -c 1-140; exit $code`, u.command, m.says(), m.after.Seconds(), whom))
	r.out = strings.TrimSpace(r.out)
	return r
}

// disturb lets something happen at a moment of a run, which may fail then, and kills it where it is still at work.
func (u *upgraded) disturb(t *testing.T, what string, m moment, happens func()) {
	t.Helper()
	u.must(t, u.node, "rm -f /root/out")
	done := make(chan result, 1)
	later := m
	later.after += outage + 10*time.Second
	start := time.Now()
	go func() { done <- u.killed(t, later, "-$pid") }()
	u.must(t, u.node, fmt.Sprintf(`for n in {1..3000}; do grep -qE %s /root/out 2>/dev/null && break; sleep 0.1; done
sleep %.3f`, m.says(), m.after.Seconds()))
	last := u.must(t, u.node, "tail -n 1 /root/out | cut -c 1-140")
	happens()
	r := <-done
	t.Logf("%s: %s, %s, %.0f s: at: %s; exit status %d at: %s", u.node, what, m, time.Since(start).Seconds(),
		strings.TrimSpace(last), r.code, r.out)
	if r.code == 0 {
		t.Errorf("%s: %s came too late", u.node, what)
	}
	eventually(t, 3*time.Minute, "all API servers are ready", func() bool { return u.allReady(t) })
}

// silence keeps all API servers from answering, also those that are started meanwhile.
func (u *upgraded) silence(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(outage); time.Now().Before(end); time.Sleep(time.Second) {
		u.onEach(t, u.nodes, "pkill -STOP -x kube-apiserver || true")
	}
	u.onEach(t, u.nodes, "pkill -CONT -x kube-apiserver || true")
}

func (u *upgraded) powerCut(t *testing.T) {
	t.Helper()
	u.run(t, "kill", "--name", u.name, u.node)
	u.run(t, "start", "--name", u.name, u.node)
	u.watchSkew(t, u.node)
}

// expectAllUpgraded: nothing is left of the former minor, nor of a run that was killed, once the kubelets are of the
// next, too.
func (l *lab) expectAllUpgraded(t *testing.T) {
	t.Helper()
	l.must(t, "cp2", "ccmadm diff") // cp1 has the record of its own turn
	etcd := l.must(t, "cp1", "kubeadm config images list --kubernetes-version "+l.step.version+" | grep -o '/etcd:.*'")
	l.onEach(t, l.nodes, "cd /usr/bin; mv kubectl.new kubectl; mv kubelet.new kubelet; systemctl restart kubelet")
	eventually(t, 3*time.Minute, "all kubelets are of "+l.step.to+", and all API servers ready", func() bool {
		r := l.sh(t, "cp1", admin+"get nodes --no-headers")
		count := func(what string) bool { return strings.Count(r.out, what) == len(l.nodes) }
		return r.code == 0 && count("v"+l.step.to+".") && count(" Ready") && l.allReady(t)
	})
	for _, node := range l.nodes {
		l.expectManagers(t, l.step.next(), node)
		l.expectNeverNewer(t, node)
		images := l.must(t, node, "grep -h image: /etc/kubernetes/manifests/*.yaml")
		if strings.Count(images, ":"+l.step.version) != 3 || !strings.Contains(images, strings.TrimSpace(etcd)) {
			t.Errorf("%s: the static pods are\n%s", node, images)
		}
		// The manager that new kubelets have started has to lead first.
		eventually(t, 3*time.Minute, node+": nothing is left to be done", func() bool {
			r := l.sh(t, node, l.step.plan())
			return r.code == 0 && strings.Contains(r.out, "Nothing is to be done.")
		})
	}
	configuration := l.kubectl(t, "-n kube-system get configmap kubeadm-config -o yaml")
	if !strings.Contains(configuration, "kubernetesVersion: "+l.step.version) {
		t.Errorf("kubeadm-config is\n%s", configuration)
	}
	if journal := l.must(t, "cp1", "ccmadm journal"); strings.Contains(journal, " Begun ") {
		t.Errorf("a run has no end:\n%s", journal)
	}
	l.expectInitialized(t, l.nodes...)
}
