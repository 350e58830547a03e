package state

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// LocalStateKind is the kind of the document that says what ccmadm has done on a machine.
const LocalStateKind = "LocalState"

// Stage is how far kubeadm has come on a machine, under ccmadm. It never goes back, but by a reset.
type Stage string

// The stages.
const (
	// StageBegun: kubeadm was started, and may have been cut short.
	StageBegun Stage = "Begun"
	// StageControlPlane: the first half of kubeadm init has ended well, and the API server has answered.
	StageControlPlane Stage = "ControlPlane"
	// StageFinished: kubeadm has finished. No half of it is ever run here again.
	StageFinished Stage = "Finished"
)

// LocalState is /etc/ccmadm/machine.yaml: what ccmadm has done on this machine. It is evidence of its own, whatever an
// API server answers or does not.
type LocalState struct {
	metav1.TypeMeta `json:",inline"`
	// Role is init or join.
	Role string `json:"role,omitempty"`
	// NodeName is the one that kubeadm was given.
	NodeName string `json:"nodeName,omitempty"`
	// Stage is how far kubeadm has come; empty before it was started.
	Stage Stage `json:"stage,omitempty"`
	// Initialized says that the node of the first control plane has succeeded: from then on the cluster's settings hold,
	// and an image that could not be pulled is no longer a mistake of the first minute.
	Initialized bool `json:"initialized,omitempty"`
	// Files are those in the provider's directory that ccmadm has written; others are the administrator's.
	Files []string `json:"files,omitempty"`
	// Upgraded is the version to which kubeadm has upgraded this machine, under ccmadm.
	Upgraded string `json:"upgraded,omitempty"`
	// UpgradeSkipped are kubeadm's phases that were left out of that on purpose: add-ons by their names, say.
	UpgradeSkipped []string `json:"upgradeSkipped,omitempty"`
	// Upgrading is the kubeadm upgrade that was begun here under ccmadm and has not come to its end, or has left out what
	// an upgrade needs: "upgrade apply v1.36.3" or "upgrade node v1.36.3".
	Upgrading string `json:"upgrading,omitempty"`
	// KubeletFlags is kubeadm's file of kubelet flags as it was before an upgrade that is under way.
	KubeletFlags string `json:"kubeletFlags,omitempty"`
}

// AddFile notes a file that is ours, and tells whether it was not noted before.
func (s *LocalState) AddFile(path string) bool {
	if slices.Contains(s.Files, path) {
		return false
	}
	s.Files = append(s.Files, path)
	slices.Sort(s.Files)
	return true
}

// Encode returns the document as YAML.
func (s *LocalState) Encode() ([]byte, error) {
	s.APIVersion, s.Kind = v1alpha1.APIVersion, LocalStateKind
	data, err := yaml.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", LocalStateKind, err)
	}
	return data, nil
}

// DecodeLocalState is lenient with fields that it does not know: a newer ccmadm may have written them.
func DecodeLocalState(where string, data []byte) (*LocalState, error) {
	raw, err := yaml.YAMLToJSON(data)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", where, err)
	}
	s := &LocalState{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, s); err != nil {
		return nil, fmt.Errorf("read %s: %w", where, err)
	}
	if s.APIVersion != v1alpha1.APIVersion || s.Kind != LocalStateKind {
		return nil, fmt.Errorf("read %s: apiVersion %q and kind %q, want %s and %s", where, s.APIVersion, s.Kind, v1alpha1.APIVersion, LocalStateKind)
	}
	return s, nil
}
