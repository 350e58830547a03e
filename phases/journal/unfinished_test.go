package journal

import "testing"

func TestUnfinished(t *testing.T) {
	one := []Step{{Name: "kubelet", State: Done}}
	for name, tt := range map[string]struct {
		runs []Run
		want int
	}{
		"no journal": {},
		"all done":   {[]Run{{ID: 1, Command: "adopt", State: Done, Steps: one}}, 0},
		"adopt was interrupted": {[]Run{
			{ID: 1, Command: "apply", State: Done, Steps: one}, {ID: 2, Command: "adopt", State: Failed, Steps: one},
		}, 2},
		"the newest of two": {[]Run{
			{ID: 1, Command: "adopt", State: CutShort, Steps: one}, {ID: 2, Command: "adopt", State: Begun, Steps: one},
		}, 2},
		"the newest has changed nothing yet": {[]Run{
			{ID: 1, Command: "adopt", State: CutShort, Steps: one}, {ID: 2, Command: "adopt", State: Failed},
		}, 1},
		"adopt came to its end later": {[]Run{
			{ID: 1, Command: "adopt", State: CutShort, Steps: one}, {ID: 2, Command: "adopt", State: Done, Steps: one},
		}, 0},
		"leave made up for it": {[]Run{
			{ID: 1, Command: "adopt", State: Failed, Steps: one}, {ID: 2, Command: "leave", State: Done, Steps: one},
		}, 0},
		"an upgrade does not": {[]Run{
			{ID: 1, Command: "adopt", State: Failed, Steps: one},
			{ID: 2, Command: "upgrade apply v1.37.2", Machine: "cp1", State: Done, Steps: one},
		}, 1},
		"apply failed and told why": {[]Run{{ID: 1, Command: "apply", State: Failed, Steps: one}}, 0},
		"apply was killed":          {[]Run{{ID: 1, Command: "apply", State: Begun, Steps: one}}, 1},
		"upgrade of one machine, and not of another": {[]Run{
			{ID: 1, Command: "upgrade node v1.37.2", Machine: "cp2", State: Failed, Steps: one},
			{ID: 2, Command: "upgrade apply v1.37.2", Machine: "cp1", State: Done, Steps: one},
		}, 1},
		"upgrade of the machine came to its end": {[]Run{
			{ID: 1, Command: "upgrade node v1.37.2", Machine: "cp2", State: Failed, Steps: one},
			{ID: 2, Command: "upgrade node v1.37.2", Machine: "cp2", State: Done, Steps: one},
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := 0
			if r := Unfinished(tt.runs); r != nil {
				got = r.ID
			}
			if got != tt.want {
				t.Errorf("got run %d, want %d", got, tt.want)
			}
		})
	}
}
