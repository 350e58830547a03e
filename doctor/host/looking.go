package host

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/redact"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
	"github.com/ccmadm/ccmadm/machine"
)

// timeout bounds what a machine is asked: a runtime that hangs is a finding. Of it, serverTimeout is for a question to the
// API server, which may be busy.
const timeout, serverTimeout = 10 * time.Second, 3 * time.Second

// looking looks at one machine.
type looking struct {
	*machine.Machine
	seen    *diagnosis.Host
	notSeen []diagnosis.NotSeen
	kubelet kubeletConfig
	serves  string // the address at which its own API server listens, by the static pod
	young   bool   // the kubelet has just been started, and may not have come as far as its Node
	settled bool   // it has had the time to write its Node's status after the machine was booted
	node    *corev1.Node
}

// kubeletConfig is what of the kubelet's configuration the rest of a machine is compared with.
type kubeletConfig struct {
	ResolvConf    *string           `json:"resolvConf"`
	StaticPodPath string            `json:"staticPodPath"`
	CgroupDriver  string            `json:"cgroupDriver"`
	Runtime       string            `json:"containerRuntimeEndpoint"`
	ProviderID    string            `json:"providerID"`
	RegisterNode  *bool             `json:"registerNode"`
	Rotates       *bool             `json:"rotateCertificates"`
	EvictionHard  map[string]string `json:"evictionHard"`
}

// look does one part, and writes down why it could not.
func (h *looking) look(part string, see func() error) {
	err := see()
	known := slices.ContainsFunc(h.notSeen, func(n diagnosis.NotSeen) bool { return n.What == part })
	if err == nil || known {
		return
	}
	reason := metav1.StatusReason("")
	if errors.Is(err, fs.ErrPermission) {
		reason = metav1.StatusReasonForbidden
	}
	message := finding.Clean(redact.Text(err.Error()))
	h.notSeen = append(h.notSeen, diagnosis.NotSeen{What: part, Reason: reason, Message: message})
}

// inMachine is a path as it is on the machine.
func (h *looking) inMachine(path string) string {
	rel, err := filepath.Rel(h.Root, path)
	if err != nil {
		return path
	}
	return "/" + rel
}
