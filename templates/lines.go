package templates

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// located puts file and line before each error about a field.
func located(file string, data []byte, strict []error, fields field.ErrorList) error {
	if len(strict) == 0 && len(fields) == 0 {
		return nil // profiles are read again and again, and are right
	}
	doc, err := yaml.Parse(string(data))
	if err != nil {
		doc = nil // it was decoded before, so this is a matter of dialect: errors are shown without lines
	}
	var errs []error
	for _, err := range strict {
		path := ""
		if m := quoted.FindStringSubmatch(err.Error()); m != nil {
			path = m[1]
		}
		errs = append(errs, fmt.Errorf("read profile %s: %w", place(file, doc, path), err))
	}
	for _, err := range fields {
		errs = append(errs, fmt.Errorf("read profile %s: %w", place(file, doc, err.Field), err))
	}
	return errors.Join(errs...)
}

var (
	quoted  = regexp.MustCompile(`^unknown field "([^"]+)"$`)
	element = regexp.MustCompile(`[^.\[\]]+|\[[^\]]+\]`)
)

// place is file:line of the field, or of the nearest one above it that is there.
func place(file string, doc *yaml.RNode, path string) string {
	if doc == nil {
		return file
	}
	node, line := doc.YNode(), 1
	for _, part := range element.FindAllString(path, -1) {
		next, at := step(node, strings.Trim(part, "[]"))
		if next == nil {
			break
		}
		node, line = next, at
	}
	return fmt.Sprintf("%s:%d", file, line)
}

// step goes down by a key or an index, and says on which line it stands.
func step(node *yaml.Node, part string) (*yaml.Node, int) {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == part {
				return node.Content[i+1], node.Content[i].Line
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(part); err == nil && i < len(node.Content) {
			return node.Content[i], node.Content[i].Line
		}
	}
	return nil, 0
}
