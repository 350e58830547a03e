package kubeadm

import (
	"fmt"

	"github.com/ccmadm/ccmadm/manifests/edit"
)

// SetControlPlaneEndpoint names the address by which all reach the control plane, HOST:PORT. One that the file has is
// the caller's to compare: [File.ControlPlaneEndpoint]. A second call changes nothing.
func (f *File) SetControlPlaneEndpoint(endpoint string) ([]Change, error) {
	if f.ControlPlaneEndpoint() == endpoint {
		return nil, nil
	}
	d := f.document(clusterConfigKind)
	if d == nil {
		version := v1beta4
		if len(f.docs) > 0 && f.docs[0].apiVersion != "" {
			version = f.docs[0].apiVersion // kubeadm wants all of one version
		}
		if err := f.add(fmt.Sprintf("apiVersion: %s\nkind: %s\n", version, clusterConfigKind)); err != nil {
			return nil, err
		}
		d = f.document(clusterConfigKind)
	}
	if err := d.Insert(edit.ScalarNode(endpoint), "controlPlaneEndpoint"); err != nil {
		return nil, fmt.Errorf("%sset controlPlaneEndpoint: %w", f.prefix(), err)
	}
	return []Change{{Text: "set controlPlaneEndpoint " + endpoint}}, nil
}
