package state

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/config"
)

// RecordKind is the kind of the document that carries a cluster's settings.
const RecordKind = "Record"

// Record is what a machine needs to know of the cluster in order to join it. kubeadm has no carrier for this
// (kubernetes/kubeadm#1021), so it stands in a ConfigMap that a bootstrap token may read, and, as far as it is known
// by then, in /etc/ccmadm on each machine.
type Record struct {
	metav1.TypeMeta `json:",inline"`
	// Configuration holds in the whole cluster; names of local files are left out.
	Configuration config.CloudConfiguration `json:"configuration"`
	// Profile is the text of the provider's profile where it is the user's own.
	Profile string `json:"profile,omitempty"`
	// PodSubnet tells machines that join whether the cluster is dual-stack.
	PodSubnet string `json:"podSubnet,omitempty"`
	// CertificatesDir is where the cluster's machines keep the CA, where that is not kubeadm's default.
	CertificatesDir string `json:"certificatesDir,omitempty"`
	// ImageRepository is where kubeadm pulls the control plane's images from, where that is not its default.
	ImageRepository string `json:"imageRepository,omitempty"`
	// KubernetesVersion is the cluster's when the record was written.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// WrittenBy is the version of ccmadm.
	WrittenBy string `json:"writtenBy,omitempty"`
	// ImageBy says who has chosen the cloud-controller-manager's image. Empty in mode Manual, and in records of before
	// there was this field.
	ImageBy ImageBy `json:"imageBy,omitempty"`
	// LifecycleHeld says that the lifecycle is Off only until an adoption has come to its end. What a user has switched
	// off stays so.
	LifecycleHeld bool `json:"lifecycleHeld,omitempty"`
	// NextImage is the cloud-controller-manager's that was named for an upgrade to KubernetesVersion, and that the last
	// control plane brings.
	NextImage string `json:"nextImage,omitempty"`
	// Newer names the fields that this ccmadm does not know, because a newer one has written them; empty where there are none. To
	// change the cluster by what is left would take away what they say.
	Newer string `json:"-"`
}

// ImageBy is who has chosen an image.
type ImageBy string

// An image is of the provider's profile, and follows it, or the user has named it, and it is kept.
const (
	ImageByProfile ImageBy = "Profile"
	ImageByUser    ImageBy = "User"
)

// Encode returns the document as YAML.
func (r *Record) Encode() ([]byte, error) {
	data, err := yaml.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode the record: %w", err)
	}
	return data, nil
}

// DecodeRecord is lenient with fields that it does not know, and says so in Newer: a newer ccmadm may have written them, and a
// machine with an older one must still be able to join.
func DecodeRecord(where string, data []byte) (*Record, error) {
	decode := func(lenient bool) (*Record, error) {
		r := &Record{}
		return r, config.Text{Name: where, Data: data, Lenient: lenient}.Decode(RecordKind, r, func() field.ErrorList {
			return r.Configuration.ValidateAt(field.NewPath("configuration"))
		})
	}
	r, unknown := decode(false)
	if unknown == nil {
		return r, nil
	}
	r, err := decode(true)
	if err != nil {
		return nil, err
	}
	r.Newer = unknown.Error()
	return r, nil
}

// Conceal is a record, as text, with references in place of the credentials that an earlier release has left in it.
func Conceal(record string) string {
	r, err := DecodeRecord("the record", []byte(record))
	if err != nil {
		return record
	}
	if r.Configuration.ControllerManager.MoveCredentials() == nil {
		return record
	}
	text, err := r.Encode()
	if err != nil {
		return record
	}
	return string(text)
}
