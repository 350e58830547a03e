package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/minors"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/lint"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

//go:generate go test . -run ^TestReference$ -count=1 -update

// onPremIntro tells the file from that of the CloudConfiguration, which names it.
const onPremIntro = "The configuration file of provider `onprem`, apiVersion `ccmadm.dev/v1alpha1`, kind `OnPremConfiguration`. Every field is " +
	"optional. It is a file of its own: the [CloudConfiguration](configuration.md) names it in `cloudConfig: {file: cloud.conf}`, " +
	"and `ccmadm init` in `--cloud-config cloud.conf`. In the cluster it is key `cloud.conf` of Secret `kube-system/ccmadm-cloud-config`. " +
	"[Inventory](../tasks/inventory.md) and [load balancers](../tasks/load-balancers-l2.md#use-another-implementation) use it.\n\n" +
	"## Change the file\n\n" +
	"**The file replaces the former one as a whole.** Fields that it omits lose their values: site, zone, `inventory`. Start " +
	"with the file that is in use:\n\n" +
	"<!-- illustration: kubectl alone; the cluster is yours -->\n" +
	"```\nkubectl -n kube-system get secret ccmadm-cloud-config -o jsonpath='{.data.cloud\\.conf}' | base64 -d > cloud.conf\n```\n\n" +
	"Without this Secret, or without its key, there is no such file yet: write `apiVersion`, `kind` and the field. Edit the file, and run " +
	"`ccmadm apply -f FILE` with a CloudConfiguration that has `cloudConfig: {file: cloud.conf}`. In mode StaticPod run `ccmadm apply` on each " +
	"other control plane, too."

var update = flag.Bool("update", false, "rewrite docs/reference from the commands")

// TestReference keeps docs/reference as the commands' own help says.
func TestReference(t *testing.T) {
	const dir = "../../docs/reference"
	want := map[string]string{}
	walk(newRoot(workflow.Streams{}), func(cmd *cobra.Command) {
		cmd.DisableAutoGenTag = true
		var page bytes.Buffer
		if err := doc.GenMarkdown(cmd, &page); err != nil {
			t.Fatal(err)
		}
		want[strings.ReplaceAll(cmd.CommandPath(), " ", "_")+".md"] = page.String()
	})
	want["lint.md"] = finding.Reference("# Rules of ccmadm lint\n\nAn error blocks the bootstrap of a cluster; a warning breaks something "+
		"later, or elsewhere. IDs never change their meaning.\n", lint.Rules())
	want["findings.md"] = finding.Reference("# Findings\n\nWhat preflight checks, `ccmadm wait`, `ccmadm status`, `ccmadm doctor` and the onprem provider find, by ID. "+
		"[Rules of ccmadm lint](lint.md) has the rest. IDs never change their meaning.\n", otherFindings())
	want["exit-statuses.md"] = finding.ExitReference()
	want["kubernetes-versions.md"] = minors.Reference()
	want["profile.md"] = fieldPage(t, "Provider profile", "What `--profile FILE` and the files of `templates/profiles` may say, apiVersion `ccmadm.dev/v1alpha1`, kind `ProviderProfile`. "+
		"Reading is strict: an unknown field is an error with its line. In arguments and variables stand ${clusterName}, ${podSubnet}, ${ipFamily} (ipv4, ipv6 or dualstack), ${routes}, ${endpoint}, ${mode}, "+
		"${version} (of ccmadm), ${kubernetesVersion}, ${kubeconfig} (of a static pod), ${cloudConfig} and ${file:KEY} (paths in the pod); a text with one that is empty is left out. [Add a provider](../tasks/add-a-provider-profile.md) has an example.",
		"../../templates", "Profile")
	want["configuration.md"] = fieldPage(t, "CloudConfiguration", "Everything that ccmadm is told about a cluster, apiVersion `ccmadm.dev/v1alpha1`, kind `CloudConfiguration`: "+
		"a document of its own in kubeadm's file, or a file by itself. `ccmadm config print` shows the defaults.",
		"../../api/[cv]*", "CloudConfiguration")
	want["onprem-configuration.md"] = fieldPage(t, "OnPremConfiguration", onPremIntro, "../../api/config", "OnPremConfiguration")
	want["addresspool.md"] = fieldPage(t, "AddressPool", "Addresses for Services of type LoadBalancer, with provider `onprem`: "+
		"[load balancers](../tasks/load-balancer-pools.md).", "../../api/v1alpha1", "AddressPool")
	want["bgppeer.md"] = fieldPage(t, "BGPPeer", "A router to which agents announce addresses: [BGP](../tasks/load-balancers-bgp.md).",
		"../../api/v1alpha1", "BGPPeer")
	if *update {
		rewrite(t, dir, want)
	}
	checkTroubleshooting(t)
	got := map[string]string{}
	files, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !generated(filepath.Base(f), want) {
			continue
		}
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		got[filepath.Base(f)] = string(data)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/reference is not what the commands say; run `make generate` (-want +got):\n%s", diff)
	}
}

// checkTroubleshooting keeps docs/troubleshooting.md as the catalogue says.
func checkTroubleshooting(t *testing.T) {
	t.Helper()
	const path = "../../docs/troubleshooting.md"
	want := finding.Troubleshooting("# Troubleshooting\n\nSymptoms, and their possible causes. Search this page for the text of an error. " +
		"`ccmadm doctor` looks at the cluster and finds which cause it is: [find what is wrong](tasks/diagnose.md). " +
		"`ccmadm explain ID` has the links to upstream.\n")
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s is not what the catalogue says; run `make generate` (-want +got):\n%s", path, diff)
	}
}

// generated is a page of these, and one of a command that there was: other pages of the directory are written by hand.
func generated(page string, pages map[string]string) bool {
	_, is := pages[page]
	return is || page == "ccmadm.md" || strings.HasPrefix(page, "ccmadm_")
}

// otherFindings are the kinds that lint does not look for.
func otherFindings() []finding.Kind {
	rules := lint.Rules()
	return slices.DeleteFunc(finding.Catalogue(), func(k finding.Kind) bool {
		return slices.ContainsFunc(rules, func(r finding.Kind) bool { return r.ID == k.ID })
	})
}

func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" {
			walk(c, visit)
		}
	}
}

func rewrite(t *testing.T, dir string, pages map[string]string) {
	t.Helper()
	former, err := filepath.Glob(filepath.Join(dir, "ccmadm_*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range former {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	for name, page := range pages {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
