package diagnosis

import (
	"fmt"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// clockWarns and clockFails are by how much clocks may differ; an HTTP date counts whole seconds.
const clockWarns, clockFails = 30 * time.Second, 5 * time.Minute

// clocks finds machines whose kubelet renews its Lease by a clock that is not the API server's. The machine on which
// the doctor runs says so itself (clockOff). Where most differ, which clock is off is not decided.
func clocks(v *view) []finding.Finding {
	var list []finding.Finding
	agree := 0
	silent := map[string]bool{}
	for _, s := range v.report.Nodes {
		silent[s.Node] = s.Cause != nil && (s.Cause.ID == finding.KubeletSilent || s.Cause.ID == finding.MachineOff)
	}
	for i := range v.Heartbeats {
		l := &v.Heartbeats[i]
		ahead, known := nodes.ClockAhead(l)
		here := v.Host != nil && v.Host.Clock != nil && v.Host.Node == l.Name
		if !known || here || v.byName[l.Name] == nil || silent[l.Name] {
			continue
		}
		if ahead.Abs() < clockWarns {
			agree++
			continue
		}
		list = append(list, clockFinding("Node/"+l.Name, ahead, "the API server, as its kubelet renews its Lease"))
	}
	if len(list) > 1 && len(list) > agree {
		for i := range list {
			list[i].Message += "; most other clocks differ too, so the API server's clock may be wrong"
		}
	}
	return list
}

// clockFinding says by how much a machine's clock differs from another's.
func clockFinding(object string, ahead time.Duration, other string) finding.Finding {
	word := "ahead of"
	if ahead < 0 {
		word = "behind"
	}
	off := ahead.Abs().Round(time.Second)
	f := finding.ClockOff.New(object, fmt.Sprintf("its clock is %s %s that of %s", off, word, other))
	if off >= clockFails {
		f.Severity = finding.SeverityError
	}
	f.Next = "timedatectl timesync-status; chronyc tracking"
	return f
}

// byClock says what a clock explains on its machine: certificates whose time has come by the API server's.
func byClock(v *view, _ *finding.Finding, explains []finding.ID) []finding.ID {
	if v.Host == nil || v.Host.Clock == nil {
		return nil
	}
	right := v.Taken.Add(-time.Duration(v.Host.Clock.Ahead * float64(time.Second)))
	for _, c := range v.Host.Certificates {
		seems, is := c.End.Before(v.Taken) || c.Begin.After(v.Taken), c.End.Before(right) || c.Begin.After(right)
		if seems && is {
			return nil
		}
	}
	return explains
}
