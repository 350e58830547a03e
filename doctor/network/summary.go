package network

import "fmt"

// Summary is a line for each of what there is: load balancers, routes, agents that do not report.
func (s *Snapshot) Summary() []string {
	var lines []string
	if list := s.Balancers(); len(list) > 0 {
		ready, worst := 0, ""
		for _, b := range list {
			if b.Ready {
				ready++
			} else if worst == "" {
				worst = fmt.Sprintf("; %s %s: ccmadm lb why %[1]s", b.Service, b.Reason)
			}
		}
		lines = append(lines, fmt.Sprintf("load balancers: %d of %d ready%s", ready, len(list), worst))
	}
	if routes := s.Routes(); len(routes) > 0 {
		wanted, found, problems := s.CheckRoutes()
		line := fmt.Sprintf("routes: %d of %d", found, wanted)
		if len(problems) > 0 {
			line += fmt.Sprintf("; %s %s: ccmadm routes check", problems[0].Object, problems[0].Reason)
		}
		lines = append(lines, line)
	}
	return lines
}
