package kubeadm

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/ccmadm/ccmadm/manifests/edit"
	"github.com/ccmadm/ccmadm/manifests/edit/edittest"
)

// FuzzKubeadmFile_RoundTrip edits whatever parses and expects that no document, key or comment is lost but for the
// cloud's arguments, that a second edit finds nothing to do, and that the result is what was asked for.
func FuzzKubeadmFile_RoundTrip(f *testing.F) {
	for _, path := range kubeadmFileInputs(f) {
		for seed := range uint64(10) {
			f.Add(readFile(f, path), roleOf(path) == RoleJoin, seed)
		}
	}
	f.Fuzz(func(t *testing.T, input []byte, join bool, seed uint64) {
		role := RoleInit
		if join {
			role = RoleJoin
		}
		checkRoundTrip(t, []byte(edittest.Scribble(string(input), seed)), role)
	})
}

func checkRoundTrip(t *testing.T, input []byte, role Role) {
	t.Helper()
	file, err := Parse("fuzz", input)
	if err != nil {
		return
	}
	if diff := cmp.Diff(string(input), string(file.Bytes())); diff != "" {
		t.Fatalf("an unedited file changed (-want +got):\n%s", diff)
	}
	before := inventory(file.docs)
	changes, err := file.SetExternal(role, KubeletFlags{NodeIP: testNodeIP}, testMinor)
	if err != nil {
		return
	}
	output := file.Bytes()
	again, err := Parse("fuzz", output)
	if err != nil {
		t.Fatalf("the result does not parse: %v\n%s", err, output)
	}
	if lost := missing(before, inventory(again.docs), string(output)); len(lost) > 0 {
		t.Errorf("lost %q, changes %v, result:\n%s", lost, changes, output)
	}
	if value, _ := again.KubeletArg(role, "cloud-provider"); value != "external" {
		t.Errorf("cloud-provider is %q:\n%s", value, output)
	}
	changes, err = again.SetExternal(role, KubeletFlags{NodeIP: testNodeIP}, testMinor)
	if err != nil || len(changes) > 0 {
		t.Errorf("the second run reports %v, %v:\n%s", changes, err, output)
	}
	if diff := cmp.Diff(string(output), string(again.Bytes())); diff != "" {
		t.Errorf("the second run changed the file (-first +second):\n%s", diff)
	}
}

const commentKey = "comment "

// inventory counts all that stands in documents: kinds, paths with their values, and the lines of comments.
func inventory(docs []*document) map[string]int {
	all := map[string]int{}
	for _, d := range docs {
		for comment := range strings.SplitSeq(separatorComment(d.Separator), "\n") {
			count(all, comment)
		}
		if d.Root == nil {
			for line := range strings.Lines(d.Text) {
				count(all, line)
			}
			continue
		}
		all["kind "+d.apiVersion+" "+d.kind]++
		walk(all, d.kind, d.Root)
	}
	return all
}

func walk(all map[string]int, path string, n *yaml.Node) {
	for _, comments := range []string{n.HeadComment, n.LineComment, n.FootComment} {
		for line := range strings.SplitSeq(comments, "\n") {
			count(all, line)
		}
	}
	for i, child := range n.Content {
		switch {
		case n.Kind == yaml.MappingNode && i%2 == 1:
			walk(all, path+"."+n.Content[i-1].Value, child)
		case n.Kind == yaml.SequenceNode && isCloudItem(child):
			walk(all, path+".cloud-item", child)
		default:
			walk(all, path, child)
		}
	}
	if n.Kind == yaml.ScalarNode || n.Kind == yaml.AliasNode {
		all[fmt.Sprintf("%s = %s %q", path, n.ShortTag(), n.Value)]++
	}
}

func isCloudItem(n *yaml.Node) bool {
	return slices.Contains([]string{"cloud-provider", "cloud-config"}, normalizeFlag(edit.Scalar(edit.Lookup(n, "name"))))
}

func count(all map[string]int, comment string) {
	if comment = strings.TrimSpace(comment); strings.HasPrefix(comment, "#") {
		all[commentKey+comment]++
	}
}

// missing lists what was there before and is not now, but for what SetExternal is there to take away. Comments are
// looked for in the text, since the YAML library drops those behind an opening bracket.
func missing(before, after map[string]int, text string) []string {
	var lost []string
	for key, n := range before {
		found := after[key]
		if comment, ok := strings.CutPrefix(key, commentKey); ok {
			found = strings.Count(text, comment)
		} else if takenAway(key) {
			continue
		}
		if found < n {
			lost = append(lost, key)
		}
	}
	slices.Sort(lost)
	return lost
}

func takenAway(key string) bool {
	for _, part := range []string{"cloud-item", "cloud-provider", "cloud-config", "= !!null"} {
		if strings.Contains(normalizeFlag(key), part) {
			return true
		}
	}
	for _, emptied := range []string{"apiServer", "controllerManager", "extraArgs"} {
		if strings.HasSuffix(key, fmt.Sprintf("= !!str %q", emptied)) {
			return true
		}
	}
	return false
}
