package templates

import (
	"fmt"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Parse reads a profile strictly. Its error names everything that is wrong at once, each by line and field path.
func Parse(file string, data []byte) (*Profile, error) {
	raw, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, fmt.Errorf("read profile %s: %w", file, err)
	}
	p := &Profile{}
	strict, err := kjson.UnmarshalStrict(raw, p)
	if err != nil {
		return nil, fmt.Errorf("read profile %s: %w", file, err)
	}
	if err := located(file, data, strict, p.validate()); err != nil {
		return nil, err
	}
	return p, nil
}
