package templates

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Parse reads a user's profile strictly. Its error names everything that is wrong at once, each by line and field path.
func Parse(file string, data []byte) (*Profile, error) { return parse(file, data, (*Profile).validate) }

func parse(file string, data []byte, validate func(*Profile) field.ErrorList) (*Profile, error) {
	raw, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, fmt.Errorf("read profile %s: %w", file, err)
	}
	p := &Profile{}
	strict, err := kjson.UnmarshalStrict(raw, p)
	if err != nil {
		return nil, fmt.Errorf("read profile %s: %w", file, err)
	}
	if err := located(file, data, strict, validate(p)); err != nil {
		return nil, err
	}
	return p, nil
}
