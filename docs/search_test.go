// Package docs tests the documentation: whether people find a page by what they type, its words, and its lists of names.
package docs

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestSearch: what people type leads to the page that answers it: among the pages with the phrase (grep -ril) it is first.
// The page of that title comes first, then those with it in their title, those with it in a heading, those with the most of it.
func TestSearch(t *testing.T) {
	texts := map[string]string{}
	for _, path := range pages(t) {
		texts[path] = strings.ToLower(read(t, path))
	}
	for phrase, want := range map[string]string{
		// of a stranger who found nothing
		"how to install":    "tasks/install.md",
		"uninstall":         "tasks/uninstall.md",
		"air gap":           "tasks/air-gap.md",
		"offline":           "tasks/air-gap.md",
		"HTTPS_PROXY":       "tasks/proxy.md",
		"high availability": "tasks/high-availability.md",
		"Prometheus":        "tasks/monitoring.md",
		"alert":             "tasks/monitoring.md",
		"Ansible":           "tasks/ansible.md",
		"SELinux":           "tasks/selinux.md",
		"FAQ":               "faq.md",
		"shell completion":  "tasks/use-the-command-line.md",
		// of the titles of kubeadm and kubernetes.io
		"join machines":                       "tasks/init-and-join.md",
		"upgrade a cluster":                   "tasks/upgrade.md",
		"renew certificates":                  "tasks/renew-certificates.md",
		"drain a node":                        "tasks/drain-and-maintenance.md",
		"dual-stack":                          "tasks/ipv6-dual-stack.md",
		"ports and":                           "reference/ports-and-firewall.md",
		"firewall":                            "reference/ports-and-firewall.md",
		"back up":                             "tasks/backup.md",
		"troubleshooting":                     "troubleshooting.md",
		"annotations, labels":                 "reference/annotations-and-labels.md",
		"glossary":                            "glossary.md",
		"cluster API":                         "tasks/cluster-api.md",
		"existing cluster":                    "tasks/adopt-existing-cluster.md",
		"bare metal with load":                "tutorials/bare-metal-load-balancers.md",
		"roll back":                           "tasks/roll-back.md",
		"external cloud mode":                 "concepts/external-cloud-mode.md",
		"external cloud provider":             "concepts/external-cloud-mode.md",
		"bare metal load balancer":            "tutorials/bare-metal-load-balancers.md",
		"MetalLB alternative":                 "concepts/comparison.md",
		"architecture":                        "concepts/architecture.md",
		"security model":                      "concepts/security-model.md",
		"change node IP":                      "faq.md",
		"rename node":                         "faq.md",
		"uninitialized taint":                 "troubleshooting.md",
		"rollback":                            "tasks/roll-back.md",
		"restore etcd":                        "tasks/backup.md",
		"dual stack":                          "tasks/ipv6-dual-stack.md",
		"external IP pending":                 "faq.md",
		"kubelet serving certificate pending": "tasks/serving-certificates-pending.md",
		// of MetalLB and its neighbours
		"MetalLB migration":    "tasks/migrate-from-metallb.md",
		"split brain":          "concepts/election.md",
		"migrate from MetalLB": "tasks/migrate-from-metallb.md",
		"kube-vip":             "tasks/migrate-from-kube-vip.md",
		"external IPs at L2":   "tasks/load-balancers-l2.md",
		"Services by BGP":      "tasks/load-balancers-bgp.md",
		"ingress-nginx":        "tasks/move-an-address.md",
		"address pools":        "tasks/load-balancer-pools.md",
		"egress":               "tasks/egress.md",
		"egress gateway":       "tasks/egress.md",
		"egress IP":            "tasks/egress.md",
		"static egress IP":     "tasks/egress.md",
		"source IP":            "tasks/egress.md",
		"SNAT":                 "tasks/egress.md",
		"firewall allow list":  "tasks/egress.md",
		"dynamic IPv6 prefix":  "tasks/changing-ipv6-prefix.md",
		"prefix delegation":    "tasks/changing-ipv6-prefix.md",
		"DHCPv6-PD":            "tasks/changing-ipv6-prefix.md",
		"renumbering":          "tasks/changing-ipv6-prefix.md",
		"Calico":               "tasks/with-calico.md",
		"Cilium":               "tasks/with-cilium.md",
		"client's source IP":   "tasks/load-balancers-l2.md",
		"L2Advertisement":      "tasks/migrate-from-metallb.md",
		"metrics":              "reference/metrics.md",
		"support bundle":       "tasks/support-bundle.md",
		// of vendors' service controllers
		"could not find any suitable subnets for creating the ELB": "troubleshooting.md",
		"neither load-balancer.hetzner.cloud/location nor":         "troubleshooting.md",
		"Failed to find floating-network-id":                       "troubleshooting.md",
		// of users of the Gateway API
		"Gateway API":               "tasks/gateway-api.md",
		"static IP for a Gateway":   "tasks/gateway-api.md",
		"spec.addresses":            "tasks/gateway-api.md",
		"GatewayClass":              "tasks/gateway-api.md",
		"status.addresses is empty": "tasks/gateway-api.md",
		"AddressNotAssigned":        "tasks/gateway-api.md",
		"pre-commit":                "tasks/lint-in-ci.md",
		"GitHub Actions":            "tasks/lint-in-ci.md",
		"support policy":            "reference/support-policy.md",
	} {
		t.Run(phrase, func(t *testing.T) {
			hits := search(texts, strings.ToLower(phrase))
			if len(hits) == 0 || hits[0].path != want {
				t.Errorf("%q leads to %v, want %s first", phrase, hits[:min(3, len(hits))], want)
			}
		})
	}
}

type hit struct {
	path                   string
	title, heading, number int
}

func search(texts map[string]string, phrase string) []hit {
	var hits []hit
	for path, text := range texts {
		if !strings.Contains(text, phrase) {
			continue
		}
		h := hit{path: path}
		for line := range strings.Lines(text) {
			n := strings.Count(line, phrase)
			h.number += n
			switch {
			case n == 0:
			case strings.TrimSpace(line) == "# "+phrase:
				h.title = 2
			case strings.HasPrefix(line, "# ") && h.number == n:
				h.title = 1
			case strings.HasPrefix(line, "## "), strings.HasPrefix(line, "### "):
				h.heading = 1
			}
		}
		if h.number > 0 {
			hits = append(hits, h)
		}
	}
	slices.SortFunc(hits, func(a, b hit) int {
		return cmp.Or(b.title-a.title, b.heading-a.heading, b.number-a.number, cmp.Compare(a.path, b.path))
	})
	return hits
}

// TestTaskPages: a task has the parts that readers of kubernetes.io know, and fits on a page.
func TestTaskPages(t *testing.T) {
	const most = 1200
	tasks := 0
	for _, path := range pages(t) {
		if filepath.Dir(path) != "tasks" {
			continue
		}
		tasks++
		text := read(t, path)
		if n := wordsOf(text); n > most {
			t.Errorf("%s has %d words, and may have %d", path, n, most)
		}
		for _, part := range []string{"## Prerequisites\n", "## Steps\n", "## Verify\n"} {
			if !strings.Contains(text, "\n"+part) {
				t.Errorf("%s lacks %q", path, strings.TrimSpace(part))
			}
		}
		if !strings.HasPrefix(text, "# ") {
			t.Errorf("%s does not begin with a title", path)
		}
	}
	if tasks < 40 {
		t.Errorf("%d pages of tasks were read", tasks)
	}
}

// TestLinks: a relative link leads to a file, and its anchor to a heading there.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s:]*)(#[^)\s]*)?\)`)
	for _, path := range withExamples(t) {
		for _, m := range link.FindAllStringSubmatch(withoutCode(read(t, path)), -1) {
			target := path
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(path), m[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: there is no %s", path, target)
			} else if m[2] != "" && strings.HasSuffix(target, ".md") && !slices.Contains(anchors(read(t, target)), m[2][1:]) {
				t.Errorf("%s: %s has no heading %s", path, target, m[2])
			}
		}
	}
}

// anchors are those that GitHub gives to headings.
func anchors(text string) []string {
	var list []string
	dropped := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for line := range strings.Lines(text) {
		if title := strings.TrimLeft(line, "#"); title != line && strings.HasPrefix(title, " ") {
			anchor := dropped.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			list = append(list, strings.ReplaceAll(anchor, " ", "-"))
		}
	}
	return list
}

// withoutCode leaves out blocks and spans of code, whose words are not ours to choose.
func withoutCode(text string) string {
	b := &strings.Builder{}
	block := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			block = !block
			continue
		}
		if block {
			continue
		}
		for i, part := range strings.Split(line, "`") {
			if i%2 == 0 {
				b.WriteString(part)
			}
		}
	}
	return b.String()
}

// pages are all of this folder and below.
func pages(t *testing.T) []string {
	t.Helper()
	return files(t, ".", ".md")
}

// withExamples are the pages, and those of examples/.
func withExamples(t *testing.T) []string {
	t.Helper()
	return append(pages(t), files(t, "../examples", ".md")...)
}

func goFiles(t *testing.T, folders ...string) []string {
	t.Helper()
	var list []string
	for _, folder := range folders {
		list = append(list, files(t, folder, ".go")...)
	}
	return slices.DeleteFunc(list, func(path string) bool { return strings.HasSuffix(path, "_test.go") })
}

func files(t *testing.T, folder, suffix string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, suffix) {
			list = append(list, path)
		}
		return err
	})
	if err != nil || len(list) == 0 {
		t.Fatalf("list %s in %s: %d, %v", suffix, folder, len(list), err)
	}
	return list
}

func glob(t *testing.T, patterns ...string) []string {
	t.Helper()
	var list []string
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("list %s: %v", pattern, err)
		}
		list = append(list, found...)
	}
	return list
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
