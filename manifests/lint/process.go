package lint

import (
	"cmp"
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/ccmadm/ccmadm/templates"
)

const (
	defaultPort = "10258"
	formerPort  = "10253" // of HTTP, gone with --port
	noPort      = "0"     // nothing is served
)

func (w *workload) securePort() string {
	if a, ok := w.arg("secure-port"); ok {
		return a.Value
	}
	return defaultPort
}

// endedProviders names each provider once, whatever number of workloads it has.
func endedProviders(s *Set) []problem {
	var problems []problem
	named := map[string]bool{}
	for _, w := range s.workloads {
		if p := w.profile; p != nil && p.Ended != "" && !named[p.Name] {
			named[p.Name] = true
			problems = append(problems, w.problem(nil, p.Warning(), nil)...)
		}
	}
	return problems
}

func samePort(s *Set) []problem {
	var problems []problem
	taken := map[string]*workload{}
	for _, w := range s.workloads {
		port := w.securePort()
		if w.agent || !w.pod.HostNetwork || port == noPort {
			continue
		}
		if first, ok := taken[port]; ok {
			message := fmt.Sprintf(
				"listens on port %s, as %s does (line %d)",
				port,
				first,
				first.doc.LineOf(first.node),
			)
			problems = append(problems, w.problem(w.argNode("secure-port"), message, nil)...)
		}
		taken[port] = w
	}
	return problems
}

// webhookPort follows Validate of k8s.io/cloud-provider/options: both may be 0.
func webhookPort(w *workload) []problem {
	if a, ok := w.arg("webhook-secure-port"); !ok || a.Value != w.securePort() || a.Value == noPort {
		return nil
	}
	return w.problem(
		w.argNode("webhook-secure-port"),
		"--webhook-secure-port and --secure-port are the same",
		w.setArg("webhook-secure-port", "0"),
	)
}

// probes compares those on the port of k8s.io/cloud-provider/app with the arguments. Others are the provider's own.
func probes(w *workload) []problem {
	if w.profile != nil && w.profile.Health.Scheme == string(corev1.URISchemeHTTP) {
		return nil
	}
	c := w.main()
	var problems []problem
	for name, p := range map[string]*corev1.Probe{"livenessProbe": c.LivenessProbe, "readinessProbe": c.ReadinessProbe, "startupProbe": c.StartupProbe} {
		if p != nil && p.HTTPGet != nil {
			problems = append(problems, probe(w, name, p.HTTPGet)...)
		}
	}
	return problems
}

func probe(w *workload, name string, get *corev1.HTTPGetAction) []problem {
	port, secure := portOf(w.main(), get.Port), w.securePort()
	former := port == formerPort || secure == noPort && port == defaultPort
	if port != secure && !former {
		return nil
	}
	at := func(field string) []string { return w.of(name, "httpGet", field) }
	if secure == noPort { // there is no port to ask instead
		list := w.problem(w.at(at("port")...), fmt.Sprintf("%s asks port %s, where nothing listens", name, port), nil)
		for i := range list {
			list[i].unsure = list[i].unsure || w.profile == nil // the program may serve something of its own there
		}
		return list
	}
	var problems []problem
	add := func(field, want, tag, format string, args ...any) {
		message := name + " " + fmt.Sprintf(format, args...)
		problems = append(problems, w.problem(w.at(at(field)...), message, w.set(want, tag, at(field)...))...)
	}
	if port != secure {
		add("port", secure, yaml.NodeTagInt, "asks port %s, where nothing listens", port)
	}
	if get.Scheme != corev1.URISchemeHTTPS {
		add("scheme", "HTTPS", "", "asks for HTTP, where HTTPS is served")
	}
	if get.Path == "/livez" || get.Path == "/readyz" {
		add("path", "/healthz", "", "asks for %s, which is not served", get.Path)
	}
	bind, _ := w.arg("bind-address")
	if ip := net.ParseIP(bind.Value); ip != nil && ip.IsLoopback() && get.Host != bind.Value {
		add("host", bind.Value, "", "asks the pod's address, and --bind-address is %s", bind.Value)
	}
	return problems
}

func portOf(c *corev1.Container, port intstr.IntOrString) string {
	if port.Type == intstr.Int {
		return strconv.Itoa(port.IntValue())
	}
	for _, p := range c.Ports {
		if p.Name == port.StrVal {
			return strconv.Itoa(int(p.ContainerPort))
		}
	}
	return port.StrVal
}

// removedFlags are those of the insecure port, which k8s.io/cloud-provider had until 1.23. A program without a profile may have added one
// of that name.
func removedFlags(w *workload) []problem {
	var problems []problem
	for _, name := range []string{"port", "address"} {
		if _, ok := w.arg(name); !ok {
			continue
		}
		message := fmt.Sprintf("k8s.io/cloud-provider has no --%s since 1.24", name)
		problems = append(problems, problem{
			object: w.object, at: w.argNode(name), message: message, fix: w.dropArg(name), unsure: w.profile == nil,
		})
	}
	return problems
}

// controllers finds the names that upstream's own documents have used and its programs never took. The flag adds to what it had where it
// is given again.
func controllers(w *workload) []problem {
	var wrong []string
	var at *yaml.Node
	for _, a := range w.args {
		if names, _ := rightControllers(a); len(names) > 0 {
			wrong = append(wrong, names...)
			at = cmp.Or(at, w.nodeOf(a))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return w.problem(at, "--controllers has "+strings.Join(wrong, ", "), func() error {
		for _, a := range w.currentArgs() {
			if names, value := rightControllers(a); len(names) > 0 {
				if err := w.put(a, value); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// rightControllers lists the wrong names of one --controllers, and makes its value with the right ones.
func rightControllers(a templates.Arg) (wrong []string, value string) {
	if a.Name != "controllers" {
		return nil, ""
	}
	right := map[string]string{
		"service-controller":        "service-lb-controller",
		"route-controller":          "node-route-controller",
		"node-controller":           "cloud-node-controller",
		"node-lifecycle-controller": "cloud-node-lifecycle-controller",
	}
	names := strings.Split(a.Value, ",")
	for i, name := range names {
		bare := strings.TrimPrefix(name, "-")
		if want, ok := right[bare]; ok {
			wrong = append(wrong, bare)
			names[i] = strings.TrimSuffix(name, bare) + want
		}
	}
	return wrong, strings.Join(names, ",")
}

func provider(w *workload) []problem {
	a, ok := w.arg("cloud-provider")
	if !ok || a.Value != "" && a.Value != "external" {
		return nil
	}
	return w.problem(w.argNode("cloud-provider"), fmt.Sprintf("--cloud-provider is %q", a.Value), nil)
}

func resourceLock(w *workload) []problem {
	a, ok := w.arg("leader-elect-resource-lock")
	if !ok || a.Value == "leases" {
		return nil
	}
	return w.problem(w.argNode(a.Name), fmt.Sprintf("--%s is %q", a.Name, a.Value), w.dropArg(a.Name))
}

func cloudConfig(w *workload) []problem {
	a, ok := w.arg("cloud-config")
	if !ok || !path.IsAbs(a.Value) {
		return nil
	}
	if slices.ContainsFunc(w.main().VolumeMounts, func(m corev1.VolumeMount) bool {
		return strings.HasPrefix(path.Clean(a.Value)+"/", path.Clean(m.MountPath)+"/")
	}) {
		return nil
	}
	return w.problem(w.argNode(a.Name), fmt.Sprintf("nothing is mounted at or above %s", a.Value), nil)
}

func clusterName(w *workload) []problem {
	a, ok := w.arg("cluster-name")
	if w.profile != nil && w.profile.NamesByService || ok && a.Value != "kubernetes" && a.Value != "" {
		return nil
	}
	return w.problem(w.argNode("cluster-name"), `the cluster's name is "kubernetes"`, nil)
}

func leaderElection(w *workload) []problem {
	every := w.static || w.kind == "DaemonSet" // on each control plane
	if w.agent || !w.is("leader-elect", "false") || !every && w.replicas() < 2 {
		return nil
	}
	return w.problem(
		w.argNode("leader-elect"),
		"--leader-elect=false, and more than one pod can run",
		w.setArg("leader-elect", "true"),
	)
}

func routes(w *workload) []problem {
	if !w.may(templates.Routes) || w.is("configure-cloud-routes", "false") {
		return nil
	}
	if a, ok := w.arg("cluster-cidr"); ok && a.Value != "" {
		return nil
	}
	return w.problem(
		w.argNode("configure-cloud-routes"),
		"--configure-cloud-routes is not false, and --cluster-cidr is missing",
		w.setArg("configure-cloud-routes", "false"),
	)
}

// untagged goes by what the provider's profile says.
func untagged(w *workload) []problem {
	const flag = "allow-untagged-cloud"
	if w.profile == nil || w.agent ||
		!slices.ContainsFunc(w.profile.Args, func(a string) bool { return strings.HasPrefix(a, "--"+flag) }) {
		return nil
	}
	if a, ok := w.arg(flag); ok && a.Value == "true" {
		return nil
	}
	return w.problem(
		w.argNode(flag),
		fmt.Sprintf("--%s is missing, and %s has no cluster ID", flag, w.profile.Title),
		w.setArg(flag, "true"),
	)
}

// allocator is about a program that allocates pod CIDRs, or of which nothing is known. k8s.io/cloud-provider itself reads
// --allocate-node-cidrs and goes by it nowhere, so that without the controller nothing is allocated twice: Hetzner's manifest has the flag.
func allocator(w *workload) []problem {
	ipam := templates.OnByDefault
	if w.profile != nil {
		ipam = w.profile.NodeIPAM
	}
	if w.agent || ipam == "" || !w.is("allocate-node-cidrs", "true") ||
		!w.runs(ipam == templates.OnByDefault, "node-ipam-controller", "nodeipam", "node-ipam") { // the last one is Azure's
		return nil
	}
	return w.problem(
		w.argNode("allocate-node-cidrs"),
		"--allocate-node-cidrs=true, and kube-controller-manager may allocate as well",
		nil,
	)
}

// runs says whether --controllers has the program run a controller, of that name or alias, as IsControllerEnabled of
// k8s.io/controller-manager/app does: each one adds to those before.
func (w *workload) runs(byDefault bool, names ...string) bool {
	given, all := false, false
	for _, a := range w.args {
		if a.Name != "controllers" {
			continue
		}
		given = true
		for entry := range strings.SplitSeq(a.Value, ",") {
			name, off := strings.CutPrefix(entry, "-")
			if slices.Contains(names, name) {
				return !off
			}
			all = all || entry == "*"
		}
	}
	return byDefault && (all || !given)
}
