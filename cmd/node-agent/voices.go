package main

import (
	"maps"
	"time"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// unheardAfter is how long an agent has not renewed its report, which it does three times a minute, before it has no
// vote any more. A new image may take a minute to come.
const unheardAfter = 3 * time.Minute

// voices are signs of life of all agents, by this one's clock.
type voices objects.Signs

// unheard are the agents that have given none for long, of those that have reports. What the API server has not told
// since it was away says nothing about them.
func (v voices) unheard(now, resumed time.Time, agents map[string]*v1alpha1.NodeAgent) map[string]bool {
	signs, unheard := objects.Signs(v), map[string]bool{}
	maps.DeleteFunc(signs, func(name string, _ objects.Sign) bool { return agents[name] == nil })
	for name, agent := range agents {
		signs.Take(now, agent)
		if !signs.Within(unheardAfter, now, name) && now.Sub(resumed) > unheardAfter {
			unheard[name] = true
		}
	}
	return unheard
}
