package nodes

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
)

// missingCause names what is missing. The ID is that of the first, which the node waits for.
func (e *evidence) missingCause(missing []permission) *finding.Finding {
	var names []string
	for _, p := range missing {
		names = append(names, p.String())
	}
	cause := missing[0].id().New("", fmt.Sprintf("the cloud-controller-manager may not %s", strings.Join(names, ", ")))
	cause.Reason = finding.MissingPermission.Kind().Reason
	cause.Next = "ccmadm apply --force"
	if !e.recorded { // its permissions are not ours to write
		cause.Next = e.allow(missing[0])
	}
	return &cause
}

// allow says whom a role has to grant a permission.
func (e *evidence) allow(p permission) string {
	for i := range e.pods {
		if who, known := userOf(&e.pods[i]); known {
			return "allow it in a role of " + who.name + ", then: kubectl auth can-i " + p.asked() + " --as=" + who.name
		}
	}
	return "grant it to the cloud-controller-manager's user"
}

// asked is how kubectl auth can-i asks for it.
func (p permission) asked() string {
	text := p.verb + " " + p.resource
	if p.group != "" {
		text += "." + p.group
	}
	if p.name != "" {
		text += "/" + p.name
	}
	if p.subresource != "" {
		text += " --subresource=" + p.subresource
	}
	if p.namespace != "" {
		text += " -n " + p.namespace
	}
	return text
}

// missingVital is what keeps every node from being initialized. Permissions for the Lease are not asked for by a
// manager that leads without them.
func (e *evidence) missingVital() []permission {
	all := vital(&e.leader)
	return slices.DeleteFunc(slices.Clone(e.denied), func(p permission) bool {
		return !slices.Contains(all, p) || p.resource == "leases" && e.led()
	})
}
