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
	for _, path := range pages(t) {
		if !forUsers(path) {
			continue
		}
		for _, block := range yamlBlocks(read(t, path)) {
			for document := range strings.SplitSeq(block, "\n---\n") {
				if err := decode([]byte(document)); err != nil {
					t.Errorf("%s: %v\n%s", path, err, document)
				}
			}
		}
	}
	for _, path := range files(t, "../examples", ".yaml") {
		for document := range strings.SplitSeq(read(t, path), "\n---\n") {
			if err := decode([]byte(document)); err != nil {
				t.Errorf("%s: %v\n%s", path, err, document)
			}
		}
	}
}

// decode reads a document as its kind says. Of other projects' it is enough that they are YAML.
func decode(document []byte) (err error) {
	var value any
	if err := yaml.Unmarshal(document, &value); err != nil {
		return err
	}
	object, _ := value.(map[string]any)
	if object["apiVersion"] != v1alpha1.APIVersion {
		return nil
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
	}
	return err
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
