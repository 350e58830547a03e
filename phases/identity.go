package phases

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/phases/machine"
)

// CheckIdentity reads the end of the certificate with which this machine's static pod asks the API server, and returns a
// finding where that is near or past: nothing else on a cluster watches it. Neither on a machine without one.
func CheckIdentity(m *machine.Machine) (end time.Time, f *finding.Finding, err error) {
	cert, err := clientCertificate(m, machine.CCMKubeconfig)
	if errors.Is(err, fs.ErrNotExist) {
		return time.Time{}, nil, nil
	}
	if err != nil || cert == nil { // a token, or files of the administrator's
		return time.Time{}, nil, err
	}
	end = cert.NotAfter
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
	warning.Next = "on this machine: ccmadm certs renew"
	return end, &warning, nil
}
