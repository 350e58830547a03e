package docs

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// TestExamples: documents of ccmadm in the pages for users, and in examples/, are read as strictly as those of users.
func TestExamples(t *testing.T) {
	inPages, inExamples := 0, 0
	for _, path := range pages(t) {
		if !forUsers(path) {
			continue
		}
		for _, block := range yamlBlocks(read(t, path)) {
			for document := range strings.SplitSeq(block, "\n---\n") {
				ours, err := decode([]byte(document))
				if err != nil {
					t.Errorf("%s: %v\n%s", path, err, document)
				}
				inPages += ours
			}
		}
	}
	for _, path := range files(t, "../examples", ".yaml") {
		for document := range strings.SplitSeq(read(t, path), "\n---\n") {
			ours, err := decode([]byte(document))
			if err != nil {
				t.Errorf("%s: %v\n%s", path, err, document)
			}
			inExamples += ours
		}
	}
	if inPages < 20 || inExamples < 5 {
		t.Errorf("%d documents of ccmadm in pages, and %d in examples, were read", inPages, inExamples)
	}
}

// decode reads a document as its kind says, and counts it if the kind is ccmadm's. Of other projects' it is enough that they are YAML.
func decode(document []byte) (ours int, err error) {
	var value any
	if err := yaml.Unmarshal(document, &value); err != nil {
		return 0, err
	}
	object, _ := value.(map[string]any)
	if object["apiVersion"] != v1alpha1.APIVersion {
		return 0, nil
	}
	switch object["kind"] {
	case "CloudConfiguration":
		_, err = config.DecodeCloudConfiguration("", 0, document)
	case "OnPremConfiguration":
		_, err = config.DecodeOnPremConfiguration("", document)
	case "Inventory":
		_, err = config.DecodeInventory("", document)
	case "AddressPool":
		err = yaml.UnmarshalStrict(document, &v1alpha1.AddressPool{})
	case "BGPPeer":
		err = yaml.UnmarshalStrict(document, &v1alpha1.BGPPeer{})
	default:
		return 0, nil
	}
	return 1, err
}

// yamlBlocks are those that say so, and what a block gives to `kubectl apply -f -`, without their indentation.
func yamlBlocks(text string) []string {
	var list []string
	var block []string
	indent, in := "", ""
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		switch {
		case in == "" && trimmed == "```yaml":
			in, block = "```", nil
			indent, _, _ = strings.Cut(line, "`")
		case in == "" && strings.HasSuffix(trimmed, "<<END"):
			in, block = "END", nil
			indent = line[:len(line)-len(strings.TrimLeft(line, " "))]
		case in != "" && trimmed == in:
			list, in = append(list, strings.Join(block, "\n")), ""
		case in != "":
			block = append(block, strings.TrimSuffix(strings.TrimPrefix(line, indent), "\n"))
		}
	}
	return list
}
