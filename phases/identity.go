package phases

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/phases/machine"
)

// CheckIdentity reads the end of the certificate with which this machine's static pod asks the API server, and returns a
// finding where that is near or past: nothing else on a cluster watches it. Neither on a machine without one.
func CheckIdentity(m *machine.Machine) (end time.Time, f *finding.Finding, err error) {
	data, err := m.Read(machine.CCMKubeconfig)
	if errors.Is(err, fs.ErrNotExist) {
		return time.Time{}, nil, nil
	}
	if err != nil {
		return time.Time{}, nil, fmt.Errorf("read the static pod's identity: %w", err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		return time.Time{}, nil, fmt.Errorf("read %s: %w", machine.CCMKubeconfig, err)
	}
	if len(config.CertData) == 0 {
		return time.Time{}, nil, nil // a token, or files of the administrator's
	}
	certs, err := certutil.ParseCertsPEM(config.CertData)
	if err != nil {
		return time.Time{}, nil, fmt.Errorf("read %s: %w", machine.CCMKubeconfig, err)
	}
	end = certs[0].NotAfter
	left := end.Sub(m.Now())
	if left > renewBefore {
		return end, nil, nil
	}
	id := finding.IdentityEnds
	when := fmt.Sprintf("ends on %s, in %d days", end.Format(time.DateOnly), int(left.Hours()/24))
	if left <= 0 {
		id, when = finding.IdentityEnded, "ended on "+end.Format(time.DateOnly)
	}
	warning := id.New(machine.CCMKubeconfig, "the certificate of the cloud-controller-manager "+when)
	warning.Next = "on this machine: ccmadm init phase kubeconfig (on a control plane that joined: ccmadm join phase kubeconfig)"
	return end, &warning, nil
}
