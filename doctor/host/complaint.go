package host

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/ccmadm/ccmadm/api/redact"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// complaintLines is how many lines of the kubelet's log are searched.
const complaintLines = 200

// complain has the kubelet's log say what is wrong. Of a kubelet that runs only what it has said lately counts.
func (h *looking) complain(ctx context.Context) {
	u := h.seen.Unit
	if u == nil || u.Load == "not-found" || u.PID == 0 && u.Active == "inactive" { // one that was stopped has ended for no error
		return
	}
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	args := []string{"-u", "kubelet", "-n", strconv.Itoa(complaintLines + redact.Further), "-o", "cat", "--no-pager"}
	if u.PID > 0 {
		args = append(args, "--since=-15min")
	}
	out, err := h.Output(ctx, "journalctl", args...)
	if err != nil {
		return // no log is no answer
	}
	for _, line := range slices.Backward(strings.Split(redact.Tail(string(out), complaintLines), "\n")) {
		line = strings.TrimSpace(line)
		switch {
		case strings.Contains(line, "Successfully registered node"): // what was wrong before is over
			return
		case strings.Contains(line, "Unable to register node"): // what comes after it only says that there is no Node
			u.Complaint = nodes.Shorten(line)
			return
		case u.Complaint != "":
		case strings.HasPrefix(line, "E"), strings.HasPrefix(line, "F"), strings.Contains(line, "err="), strings.Contains(line, `"err":`):
			u.Complaint = nodes.Shorten(line)
		}
	}
}
