package diagnosis

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/components"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/doctor/requests"
)

// symptom is a line by which a program says itself what is wrong.
type symptom struct {
	id      finding.ID
	pattern *regexp.Regexp
	// unless is a line that says the same of something else.
	unless *regexp.Regexp
	// among are lines of which only the last counts: what was refused before may be granted now. Nil: all count.
	among *regexp.Regexp
	// same says that what the pattern's first two groups match must be the same.
	same bool
	// always says that it is looked for while the manager leads and no Node waits, too: in lines that [Snapshot.holds] is true of.
	always bool
	// proven asks the rest of the snapshot. Nil: the line says it all.
	proven func(*view, *manager) bool
}

// says tells whether a line does.
func (s *symptom) says(line string) bool {
	found := s.pattern.FindStringSubmatch(line)
	return found != nil && (!s.same || found[1] == found[2]) && (s.unless == nil || !s.unless.MatchString(line))
}

// ofAPIServer is in lines about what the API server has answered: webhooks that it calls have certificates of their own.
const ofAPIServer = ofAPIServerAnywhere + `|:6443`

// ofAPIServerAnywhere is in them whatever the server's port is.
const ofAPIServerAnywhere = `is forbidden: User|(?:resource|lease) lock|failed to (list|watch)|leases|/apis/[\w.]+\.k8s\.io/|` +
	`failed calling webhook|failed to call webhook|Server rejected event`

var (
	byAPIServer = regexp.MustCompile(ofAPIServer)
	etcdIsFull  = regexp.MustCompile(`mvcc: database space exceeded`)
	// byProxy says that the name is that of the proxy (net/http).
	byProxy = regexp.MustCompile(`proxyconnect tcp: `)
	lookup  = regexp.MustCompile(`dial tcp: lookup \S+( on \S+)?: .*(timeout|refused|no such host|server misbehaving|not permitted|unreachable)`)
)

// asksCloud is how controllers of k8s.io/cloud-provider begin what they say of an answer of the cloud: those of Nodes, of their lifecycle, and of
// Services.
const asksCloud = `failed to get instance metadata|could not init cloud provider|error syncing|InstanceExists|` +
	`error checking if node \S+ (?:exists|is shutdown)|failed to ensure load balancer|[Ee]rror getting instance metadata`

// loggedAt is the time in klog's header, or of a JSON line: that of Kubernetes (component-base/logs/json) counts milliseconds.
var loggedAt = regexp.MustCompile(`^[IWEF](\d{4} \d\d:\d\d:\d\d)|"ts":\s*(?:"([^"]+)"|(\d+)[\d.]*)`)

// timeOf is when a line was written; zero where it does not tell. Containers have the time UTC.
func (s *Snapshot) timeOf(line string) time.Time {
	m := loggedAt.FindStringSubmatch(line)
	if m == nil {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, m[2])
	switch {
	case m[1] != "":
		at, err = time.Parse("2006 0102 15:04:05", s.Taken.UTC().Format("2006 ")+m[1])
	case m[3] != "":
		var millis int64
		millis, err = strconv.ParseInt(m[3], 10, 64)
		at = time.UnixMilli(millis)
	}
	if err != nil {
		return time.Time{}
	}
	return at
}

// lately tells whether a manager has written a line in this round of its questions about Nodes or in the one before: what is older may
// be over.
func (s *Snapshot) lately(m *manager, at time.Time) bool {
	return s.within(at, m.round()+answered)
}

// within tells whether a line is of the last time, by its time; of one without, nothing is known.
func (s *Snapshot) within(at time.Time, last time.Duration) bool {
	return !at.IsZero() && s.since(at).Abs() < last
}

// longestHeld is for how long a line at most tells what is wrong now, however long the rounds are.
const longestHeld = 15 * time.Minute

// holds tells whether a line of a manager that works may say what is wrong now. After an error about a Node of a round nothing is said of it
// until the next round; what other controllers ask about, they ask again within minutes: that of Services at the latest 5 minutes
// (maxRetryDelay) after an answer.
func (s *Snapshot) holds(m *manager, line string) bool {
	within := rounds + answered
	if ofRound.MatchString(line) {
		within = min(m.round()+answered, longestHeld)
	}
	return s.within(s.timeOf(line), within)
}

// symptoms are lines of logs. The texts are those of k8s.io/cloud-provider, its apiserver and client-go, v0.36.
func symptoms() []symptom {
	is := regexp.MustCompile
	return []symptom{
		{id: finding.EtcdFull, pattern: etcdIsFull},
		{id: "B10", pattern: is(`failed to listen on .*: bind: address already in use`)},
		{id: "B11", pattern: is(`--webhook-secure-port cannot be the same`)},
		{id: "B13", pattern: is(`unknown flag: --\S+`)},
		{id: "B14", pattern: is(`is not in the list of known controllers`)},
		{id: "B15", pattern: is(`--cloud-provider cannot be empty|unknown cloud provider \\?"|this binary has no such provider|[Cc]loud provider is nil`)},
		{id: "B16", pattern: is(`resourceLock value must be \\?"leases`)},
		{id: "B17", pattern: is(`no ClusterID [Ff]ound|failed to find ClusterID`)},
		{id: "D2", pattern: is(`[Cc]ouldn't open cloud provider configuration|--cloud-config: open \S+: no such file|cloud provider config file given`)},
		{id: "F1", pattern: is(`invalid CIDR\[0\]|RouteController: Must specify clusterCIDR`)},
		{id: "D5", pattern: is(`extension-apiserver-authentication\\?" is forbidden`)},
		{
			// by the Service's address: other servers have names, or other paths
			id: "C2", same: true, proven: byServiceAddress,
			pattern: is(`https://([\d.]+|\[[\da-fA-F:]+\]):443/(?:apis?|version|healthz|livez)\b.*dial tcp (\S+):443: ` +
				`(?:i/o timeout|connect: connection refused|connect: no route to host)`),
		},
		{id: "C3", pattern: lookup, unless: byProxy, proven: byClusterDNS},
		{
			id: finding.CloudNotFound, pattern: lookup, unless: is(byProxy.String() + "|" + ofAPIServer),
			proven: func(_ *view, m *manager) bool { return !asksClusterDNS(m) },
		},
		{id: finding.MetadataUnreached, pattern: is(`169\.254\.169\.254.*(timeout|deadline|refused|no route|401)`)},
		{id: finding.CloudNotTrusted, always: true, pattern: is(`x509: certificate signed by unknown authority`), unless: byAPIServer},
		{
			// whose quota is used up, has been let in
			id: finding.CloudRefuses, always: true, unless: is(`(?i:quota|limit ?exceeded)|` + ofAPIServer),
			among: is(asksCloud + `|` + cloudAnswers.String()),
			// names and paths have numbers, too
			pattern: is(`(?i)(` + asksCloud + `).*(?:[^\w'./-](?:401|403)(?:[^\w'/-]|$)|` +
				`\b(?:unauthorized|unauthenticated|AuthFailure|InvalidClientTokenId|AccessDenied|invalid credentials|UnauthorizedOperation)\b)`),
		},
		{id: finding.LeaseLost, pattern: is(`leader ?election lost`)},
		{
			id: finding.NoInventory, pattern: is(`there is no inventory: (Unreadable|Malformed|Empty|OtherSite): `),
			among: is(`there is no inventory: |Inventory read\b|Successfully initialized`),
		},
	}
}

// symptomsInLog looks where something is behind: a line of a manager that does its work now is history. It leads without the cloud, too.
func symptomsInLog(v *view) []finding.Finding {
	works := v.leads() && !v.waits()
	var list []finding.Finding
	for i := range v.managers {
		m := &v.managers[i]
		for _, s := range symptoms() {
			if works && !s.always {
				continue
			}
			if pod, line := lastLine(v, m, s, works); line != "" && (s.proven == nil || s.proven(v, m)) {
				f := s.id.New(m.object, "pod "+pod+" logs: "+line)
				f.Next = "kubectl -n " + m.namespace + " logs " + pod
				switch s.id {
				case finding.NoInventory:
					f.Next = v.rereading(m, line)
				case finding.EtcdFull:
					f.Object, f.Next = emptied(readClusterConfiguration(v.Kubeadm), m.object, v.controlPlane())
				}
				list = append(list, f)
			}
		}
	}
	return append(list, v.etcdFull(v.controlPlane())...)
}

// etcdFull looks into what kubeadm's static pods have logged: without a manager, or without its Lease, they alone say it. Other pods may
// have an etcd of their own, and what is older may be over.
func (s *Snapshot) etcdFull(controlPlane string) []finding.Finding {
	if s.Components == nil {
		return nil
	}
	for _, n := range s.Nodes {
		for _, component := range components.Static() {
			pod := component + "-" + n.Name
			for _, line := range slices.Backward(s.Components.Logs[pod]) {
				if !s.within(s.timeOf(line), longestHeld) || !etcdIsFull.MatchString(line) {
					continue
				}
				f := finding.EtcdFull.New("", "pod "+pod+" logs: "+nodes.Shorten(line))
				f.Object, f.Next = emptied(readClusterConfiguration(s.Kubeadm), "Pod/"+v1alpha1.Namespace+"/"+pod, controlPlane)
				return []finding.Finding{f}
			}
		}
	}
	return nil
}

// emptied are the commands that make room in etcd, and what to say it of. The image of kubeadm's etcd has no shell: they run outside of
// it. One that kubeadm did not make has no pod: API servers have the files by which it is reached, and the manager's word is all there is.
func emptied(config clusterConfiguration, manager, controlPlane string) (object, next string) {
	dir := path.Join(config.pki(), "etcd")
	etcd := externalEtcd{
		Endpoints: []string{"https://127.0.0.1:2379"},
		CAFile:    dir + "/ca.crt", CertFile: dir + "/healthcheck-client.crt", KeyFile: dir + "/healthcheck-client.key",
	}
	const each = "defrag --command-timeout=10m" // of the usual 5 s, a member with gigabytes has too few
	defrag := each + " --cluster"               // the size that counts is each member's
	object, in := "Pod/"+v1alpha1.Namespace+"/etcd-"+controlPlane, "kubectl -n kube-system exec etcd-"+controlPlane+" -- "
	if config.Etcd.External != nil {
		etcd, object, in, defrag = *config.Etcd.External, manager, "", each // the endpoints are named
	}
	args := []string{"etcdctl", "--endpoints=" + strings.Join(etcd.Endpoints, ",")}
	for _, file := range []struct{ flag, path string }{{"cacert", etcd.CAFile}, {"cert", etcd.CertFile}, {"key", etcd.KeyFile}} {
		if file.path != "" { // without TLS there are none
			args = append(args, "--"+file.flag+"="+file.path)
		}
	}
	next = fmt.Sprintf(`%s compact $(%[1]s endpoint status -w json | grep -o '"revision":[0-9]*' | head -n 1 | cut -d: -f2), then: `+
		`%[1]s %[2]s, then: %[1]s alarm disarm`, in+shellLine(args), defrag)
	if in == "" {
		next = "on " + cmp.Or(controlPlane, "a control plane") + ": " + next
	}
	return object, next
}

func lastLine(v *view, m *manager, s symptom, late bool) (pod, line string) {
	for _, p := range m.pods {
		log := v.Logs[p.Name]
		for i, line := range slices.Backward(log) {
			if s.says(line) && (!late || v.holds(m, line)) {
				return p.Name, nodes.LastWord(log[:i+1])
			}
			if s.among != nil && s.among.MatchString(line) {
				break
			}
		}
	}
	return "", ""
}

// byServiceAddress says that the manager knows no other way to the API server than its Service.
func byServiceAddress(_ *view, m *manager) bool {
	for _, name := range []string{"kubeconfig", "master"} {
		if m.arg(name) != "" {
			return false
		}
	}
	return !slices.ContainsFunc(m.pod.Containers[m.Container].Env, func(e corev1.EnvVar) bool { return e.Name == "KUBERNETES_SERVICE_HOST" })
}

func asksClusterDNS(m *manager) bool {
	switch m.pod.DNSPolicy {
	case corev1.DNSClusterFirstWithHostNet:
		return true
	case corev1.DNSDefault, corev1.DNSNone:
		return false
	}
	return !m.pod.HostNetwork
}

// byClusterDNS says that no pod of the manager's name server is ready.
func byClusterDNS(v *view, m *manager) bool {
	return asksClusterDNS(m) && v.DNS.Pods > 0 && v.DNS.Ready == 0
}

var (
	podSecurity = regexp.MustCompile(`violates PodSecurity "[^"]+"`)
	noAccount   = regexp.MustCompile(`serviceaccount "[^"]+" not found`)
	byAdmission = regexp.MustCompile(`is forbidden: |denied the request|denied request`)
	notThere    = regexp.MustCompile(`(secret|configmap) "[^"]+" not found|couldn't find key \S+ in (Secret|ConfigMap) \S+`)
)

// refusedPods are those that the API server does not let a workload make.
func refusedPods(v *view) []finding.Finding {
	var list []finding.Finding
	for i := range v.managers {
		m := &v.managers[i]
		if len(m.pods) > 0 || m.scaledToNothing() {
			continue
		}
		if e := v.latest(m, "FailedCreate"); e != nil {
			id := finding.WriteRefused
			switch {
			case podSecurity.MatchString(e.Message):
				id = "B6"
			case noAccount.MatchString(e.Message):
				id = "D15"
			case strings.Contains(e.Message, "failed calling webhook"):
				if len(blocked(v.Snapshot)) > 0 {
					continue
				}
				id = finding.WebhookBlocks
			case !byAdmission.MatchString(e.Message) || strings.Contains(e.Message, "is forbidden: User "): // that is another's word
				continue
			}
			f := id.New(m.object, "its pods are refused: "+nodes.Shorten(e.Message))
			_, f.Next = requests.RefuserOrNamespace(m.namespace, e.Message)
			list = append(list, f)
		}
	}
	return list
}

// missingObjects are Secrets and ConfigMaps that a kubelet waits for.
func missingObjects(v *view) []finding.Finding {
	var list []finding.Finding
	for i := range v.managers {
		m := &v.managers[i]
		text := ""
		for _, p := range m.pods {
			for _, s := range p.Status.ContainerStatuses {
				waiting := s.State.Waiting
				if waiting == nil {
					continue
				}
				if notThere.MatchString(waiting.Message) {
					text = waiting.Message
				}
				if waiting.Reason != "ContainerCreating" {
					continue
				}
				for _, e := range v.eventsOf(m) {
					if e.InvolvedObject.Name == p.Name && e.Reason == "FailedMount" && notThere.MatchString(e.Message) {
						text = e.Message
					}
				}
			}
		}
		if text != "" {
			f := finding.SecretMissing.New(m.object, fmt.Sprintf("its pod cannot start: %s", nodes.Shorten(text)))
			f.Next = "kubectl -n " + m.namespace + " get secrets,configmaps"
			list = append(list, f)
		}
	}
	return list
}
