package docs

import (
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// TestKubectlGroups: other projects define BGPPeers, too, and kubectl takes Calico's where both are served: commands name the group.
// Where two resources are saved into one file, each does.
func TestKubectlGroups(t *testing.T) {
	list := append(withExamples(t), "../manifests/monitoring/rules.yaml")
	for _, path := range list {
		text := read(t, path)
		if strings.HasSuffix(path, ".md") {
			text = onlyCode(text)
		}
		for _, m := range regexp.MustCompile(`\bkubectl ([^|\n]*)`).FindAllStringSubmatch(text, -1) {
			for word := range strings.FieldsSeq(m[1]) {
				names := strings.Split(strings.Trim(word, "'"), ",")
				for _, name := range names {
					if strings.TrimSuffix(name, "s") == "bgppeer" || strings.TrimSuffix(name, "s") == "addresspool" && len(names) > 1 {
						t.Errorf("%s: kubectl %s: write %s.%s", path, m[1], name, v1alpha1.GroupName)
					}
				}
			}
		}
	}
}

// TestBGPPeers: what a BGPPeer of a page selects and requires is on that page: the label of its Nodes, and the router's password.
func TestBGPPeers(t *testing.T) {
	peers := 0
	for _, path := range pages(t) {
		if !forUsers(path) || strings.HasPrefix(path, "reference") {
			continue
		}
		text := read(t, path)
		for document := range strings.SplitSeq(strings.Join(yamlBlocks(text), "\n---\n"), "\n---\n") {
			var peer v1alpha1.BGPPeer
			if yaml.Unmarshal([]byte(document), &peer) != nil || peer.Kind != "BGPPeer" {
				continue
			}
			peers++
			if peer.Spec.PasswordKey != "" && !regexp.MustCompile(`(?m)\bpassword "`).MatchString(text) {
				t.Errorf("%s: BGPPeer/%s has a password, and the router's configuration has none", path, peer.Name)
			}
			if peer.Spec.Nodes == nil {
				continue
			}
			for key := range peer.Spec.Nodes.MatchLabels {
				if !regexp.MustCompile(`kubectl label nodes? .*` + regexp.QuoteMeta(key) + `=`).MatchString(text) {
					t.Errorf("%s: BGPPeer/%s selects Nodes by label %s, which no command of the page sets", path, peer.Name, key)
				}
			}
		}
	}
	if peers < 2 {
		t.Errorf("%d BGPPeers were read", peers)
	}
}

// TestSamples: what blocks show as the output of commands is what the programs print.
func TestSamples(t *testing.T) {
	words := refusedWords()
	for _, b := range blocks(t) {
		if !forUsers(strings.TrimPrefix(b.path, "../")) {
			continue
		}
		for _, c := range commands(b) {
			output := strings.Join(c.output, "\n")
			refuse(t, words, b.path, output)
			if m := regexp.MustCompile(`(?m)^Service/\S+: ready$|\bnot ready for \d+m\b`).FindString(output); m != "" {
				t.Errorf("%s: %q: ccmadm lb prints a message after ready, and durations as 1m0s", b.path, m)
			}
			if strings.Contains(output, "no other Node may have it") && len(regexp.MustCompile(`(?m)^\w+ +yes `).FindAllString(output, -1)) != 1 {
				t.Errorf("%s: %q is printed where one Node may have the address", b.path, "no other Node may have it")
			}
		}
	}
}

// TestFacts: what pages say of the code, and the code of itself.
func TestFacts(t *testing.T) {
	for _, tt := range []struct{ page, says, file, because string }{
		{"concepts/comparison.md", `\| BGP \| GoBGP`, "../go.mod", `osrg/gobgp`},
		{"tutorials/cloud.md", "--node-name", "../templates/profiles/aws.yaml", "nameFrom"},
		{
			"tasks/migrate-from-metallb.md", "`serviceAllocation.priority` .*highest",
			"../provider/balancer/allocator/pools.go", `Compare\(b.Spec.Priority, a.Spec.Priority`,
		},
		{"tasks/load-balancers-bgp.md", "no node agent reports a session", "../provider/balancer/count.go", "no node agent reports a session"},
		{"tasks/load-balancer-pools.md", "reason `Disabled`", "../provider/balancer/count.go", `"Disabled"`},
	} {
		if regexp.MustCompile(tt.because).MatchString(read(t, tt.file)) != regexp.MustCompile(tt.says).MatchString(read(t, tt.page)) {
			t.Errorf("one of %s (%q) and %s (%q) has it, and the other has not", tt.page, tt.says, tt.file, tt.because)
		}
	}
	m := regexp.MustCompile(`resource := range \[\]string\{(.*)\}`).FindStringSubmatch(read(t, "../doctor/lbtest/permissions.go"))
	if m == nil {
		t.Fatal("the resources that lb test --disrupt lists are not found")
	}
	page := strings.ToLower(read(t, "tasks/test-load-balancers.md"))
	for _, name := range regexp.MustCompile(`\w+`).FindAllString(m[1], -1) {
		if !strings.Contains(page, name) {
			t.Errorf("tasks/test-load-balancers.md lacks %s, which lb test --disrupt lists", name)
		}
	}
}
