package templates

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/ccmadm/ccmadm/api/config"
)

// Parse reads a user's profile strictly. Its error names everything that is wrong at once, each by line and field path.
func Parse(file string, data []byte) (*Profile, error) { return parse(file, data, (*Profile).validate) }

func parse(file string, data []byte, validate func(*Profile) field.ErrorList) (*Profile, error) {
	p := &Profile{}
	err := config.Text{Name: file, Data: data}.Decode(Kind, p, func() field.ErrorList { return validate(p) })
	if err != nil {
		return nil, err
	}
	return p, nil
}
