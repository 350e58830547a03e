package manifests

import (
	"embed"
	"fmt"
	"io/fs"

	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.21.0 crd paths=../api/v1alpha1 output:crd:dir=crds

//go:embed crds/*.yaml
var crds embed.FS

// CRDs returns the definitions of AddressPool, BGPPeer, NodeAgent, NodeAgentLease, NodeAnnouncements and NodeRoutes. They come before
// everything that uses them.
func CRDs() ([]*Object, error) {
	var list []*Object
	err := fs.WalkDir(crds, "crds", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := crds.ReadFile(path)
		if err != nil {
			return err
		}
		object := &Object{}
		if err := yaml.Unmarshal(data, &object.Object); err != nil {
			return fmt.Errorf("decode %s: %w", path, err)
		}
		object.SetLabels(map[string]string{v1alpha1.ManagedByLabel: v1alpha1.FieldManager})
		list = append(list, object)
		return nil
	})
	return list, err
}
