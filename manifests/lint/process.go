package lint

import (
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

const defaultPort = "10258"

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
		if w.agent || !w.pod.HostNetwork {
			continue
		}
		if first, ok := taken[w.securePort()]; ok {
			message := fmt.Sprintf(
				"listens on port %s, as %s does (line %d)",
				w.securePort(),
				first,
				first.doc.LineOf(first.node),
			)
			problems = append(problems, w.problem(w.argNode("secure-port"), message, nil)...)
		}
		taken[w.securePort()] = w
	}
	return problems
}

func webhookPort(w *workload) []problem {
	if a, ok := w.arg("webhook-secure-port"); !ok || a.Value != w.securePort() {
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
	if !w.upstreamFlags() || w.profile != nil && w.profile.Health.Scheme == string(corev1.URISchemeHTTP) {
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
	port := portOf(w.main(), get.Port)
	if port != w.securePort() && port != "10253" {
		return nil
	}
	at := func(field string) []string { return w.of(name, "httpGet", field) }
	var problems []problem
	add := func(field, want, tag, format string, args ...any) {
		message := name + " " + fmt.Sprintf(format, args...)
		problems = append(problems, w.problem(w.at(at(field)...), message, w.set(want, tag, at(field)...))...)
	}
	if port == "10253" { // the port of HTTP, gone with --port
		add("port", w.securePort(), yaml.NodeTagInt, "asks port 10253, where nothing listens")
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

// removedFlags are those of the insecure port, which k8s.io/cloud-provider had until 1.23.
func removedFlags(w *workload) []problem {
	var problems []problem
	for _, name := range []string{"port", "address"} {
		if _, ok := w.arg(name); ok && w.upstreamFlags() {
			problems = append(
				problems,
				w.problem(w.argNode(name), fmt.Sprintf("--%s is gone since 1.24", name), w.dropArg(name))...)
		}
	}
	return problems
}

// controllers finds the names that upstream's own documents have used and its programs never took.
func controllers(w *workload) []problem {
	a, ok := w.arg("controllers")
	if !ok || !w.upstreamFlags() {
		return nil
	}
	right := map[string]string{
		"service-controller":        "service-lb-controller",
		"route-controller":          "node-route-controller",
		"node-controller":           "cloud-node-controller",
		"node-lifecycle-controller": "cloud-node-lifecycle-controller",
	}
	names := strings.Split(a.Value, ",")
	var wrong []string
	for i, name := range names {
		bare := strings.TrimPrefix(name, "-")
		if want, ok := right[bare]; ok {
			wrong = append(wrong, bare)
			names[i] = strings.TrimSuffix(name, bare) + want
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return w.problem(
		w.argNode("controllers"),
		"--controllers has "+strings.Join(wrong, ", "),
		w.setArg("controllers", strings.Join(names, ",")),
	)
}

func provider(w *workload) []problem {
	a, ok := w.arg("cloud-provider")
	if !ok || !w.upstreamFlags() || a.Value != "" && a.Value != "external" {
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
	if !w.upstreamFlags() || w.profile != nil && w.profile.NamesByService ||
		ok && a.Value != "kubernetes" && a.Value != "" {
		return nil
	}
	return w.problem(w.argNode("cluster-name"), `the cluster's name is "kubernetes"`, nil)
}

func leaderElection(w *workload) []problem {
	if w.agent || !w.is("leader-elect", "false") || w.deployment != nil && w.replicas() < 2 {
		return nil
	}
	return w.problem(
		w.argNode("leader-elect"),
		"--leader-elect=false, and more than one pod can run",
		w.setArg("leader-elect", "true"),
	)
}

func routes(w *workload) []problem {
	if !w.upstreamFlags() || !w.may(templates.Routes) || w.is("configure-cloud-routes", "false") {
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

// allocators are the providers whose program adds upstream's nodeipam controller: k8s.io/cloud-provider itself reads --allocate-node-cidrs and
// goes by it nowhere, so that with others (Hetzner's manifest has the flag) nothing is allocated twice.
func allocators() []string { return []string{"aws", "azure", "gcp", "linode", "sample"} }

// allocator is about a program that allocates pod CIDRs, or of which nothing is known.
func allocator(w *workload) []problem {
	if w.agent || !w.is("allocate-node-cidrs", "true") || w.profile != nil && !slices.Contains(allocators(), w.profile.Name) {
		return nil
	}
	return w.problem(
		w.argNode("allocate-node-cidrs"),
		"--allocate-node-cidrs=true, and kube-controller-manager may allocate as well",
		nil,
	)
}
