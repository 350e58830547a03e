package host

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ccmadm/ccmadm/doctor/diagnosis"
)

// counting is for how long segments are counted at least: a look at a machine in good order is done in less.
const counting = time.Second

// segments are the TCP segments that this machine has sent since it started, and those of them that it has sent again.
type segments struct {
	at          time.Time
	sent, again uint64
}

// count reads them. The format is that of proc_net(5): a line of names, and a line of values.
func (h *looking) count() (segments, error) {
	const file = "/proc/net/snmp"
	data, err := h.Read(file)
	if err != nil {
		return segments{}, err
	}
	s := segments{at: h.Now()}
	var names []string
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || fields[0] != "Tcp:":
		case names == nil:
			names = fields
		default:
			for name, value := range map[string]*uint64{"OutSegs": &s.sent, "RetransSegs": &s.again} {
				i := slices.Index(names, name)
				if i < 0 || i >= len(fields) {
					return segments{}, fmt.Errorf("read %s: no %s", file, name)
				}
				if *value, err = strconv.ParseUint(fields[i], 10, 64); err != nil {
					return segments{}, fmt.Errorf("read %s: %w", file, err)
				}
			}
			return s, nil
		}
	}
	return segments{}, fmt.Errorf("read %s: no values of TCP", file)
}

// losses compares them with what was counted before.
func (h *looking) losses(ctx context.Context, before segments) error {
	select {
	case <-ctx.Done():
	case <-time.After(counting - h.Now().Sub(before.at)):
	}
	after, err := h.count()
	if err != nil || after.sent < before.sent {
		return err
	}
	h.seen.Segments = &diagnosis.Segments{Sent: after.sent - before.sent, Again: after.again - before.again, Seconds: after.at.Sub(before.at).Seconds()}
	return nil
}
