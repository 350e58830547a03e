package phases

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// FuzzKubeadmFile_RoundTrip edits whatever parses and expects that no document, key or comment is lost but for the
// cloud's arguments, that a second edit finds nothing to do, and that the result is what was asked for.
func FuzzKubeadmFile_RoundTrip(f *testing.F) {
	for _, path := range kubeadmFileInputs(f) {
		f.Add(readFile(f, path), roleOf(path) == RoleJoin)
	}
	f.Fuzz(func(t *testing.T, input []byte, join bool) {
		role := RoleInit
		if join {
			role = RoleJoin
		}
		file, err := ParseKubeadmFile("fuzz", input)
		if err != nil {
			return
		}
		if diff := cmp.Diff(string(input), string(file.Bytes())); diff != "" {
			t.Fatalf("an unedited file changed (-want +got):\n%s", diff)
		}
		before := inventory(file.docs)
		changes, err := file.SetExternal(role, testNodeIP, testMinor)
		if err != nil {
			return
		}
		output := file.Bytes()
		again, err := ParseKubeadmFile("fuzz", output)
		if err != nil {
			t.Fatalf("the result does not parse: %v\n%s", err, output)
		}
		if lost := missing(before, inventory(again.docs)); len(lost) > 0 {
			t.Errorf("lost %q, changes %v, result:\n%s", lost, changes, output)
		}
		if value, _ := again.KubeletArg(role, "cloud-provider"); value != "external" {
			t.Errorf("cloud-provider is %q:\n%s", value, output)
		}
		changes, err = again.SetExternal(role, testNodeIP, testMinor)
		if err != nil || len(changes) > 0 {
			t.Errorf("the second run reports %v, %v:\n%s", changes, err, output)
		}
		if diff := cmp.Diff(string(output), string(again.Bytes())); diff != "" {
			t.Errorf("the second run changed the file (-first +second):\n%s", diff)
		}
	})
}

// inventory counts all that stands in documents: kinds, paths with their values, and the lines of comments.
func inventory(docs []*kubeadmDoc) map[string]int {
	all := map[string]int{}
	for _, d := range docs {
		for comment := range strings.SplitSeq(separatorComment(d.separator), "\n") {
			count(all, comment)
		}
		if d.root == nil {
			for line := range strings.Lines(d.text) {
				count(all, line)
			}
			continue
		}
		all["kind "+d.apiVersion+" "+d.kind]++
		walk(all, d.kind, d.root)
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
	return slices.Contains([]string{"cloud-provider", "cloud-config"}, normalizeFlag(scalar(lookup(n, "name"))))
}

func count(all map[string]int, comment string) {
	if comment = strings.TrimSpace(comment); strings.HasPrefix(comment, "#") {
		all[comment]++
	}
}

// missing lists what was there before and is not now, but for what SetExternal is there to take away.
func missing(before, after map[string]int) []string {
	var lost []string
	for key, n := range before {
		taken := strings.Contains(key, "cloud-item") || strings.Contains(normalizeFlag(key), "cloud-provider") || strings.Contains(normalizeFlag(key), "cloud-config") ||
			strings.HasSuffix(key, `= !!str "apiServer"`) || strings.HasSuffix(key, `= !!str "controllerManager"`) || strings.HasSuffix(key, `= !!str "extraArgs"`) ||
			strings.Contains(key, "= !!null")
		if after[key] < n && (!taken || strings.HasPrefix(key, "#")) {
			lost = append(lost, key)
		}
	}
	slices.Sort(lost)
	return lost
}
