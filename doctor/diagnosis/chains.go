package diagnosis

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// Diagnose judges a snapshot. It reads nothing else.
func Diagnose(s *Snapshot, more ...Extra) *Diagnosis {
	v := newView(s)
	v.report = nodes.Judge(v.facts, nil)
	d := &Diagnosis{NotSeen: s.NotSeen, NotLooked: map[string]string{}, Summary: v.summary(), picture: v.picture()}
	if n := s.notSeen(partKubelets); n != nil && s.notSeen(partCluster) == nil {
		d.noKubelet = len(s.Settings.Kubelets)+len(s.Flags) == 0 && !kubeletsAnswer(n)
	}
	if s.Probe != nil {
		d.Probed, d.unprobed = s.Probe.Lines(), !s.Probe.Complete()
	}
	d.blindProbe = s.notSeen(PartProbe) != nil && s.notSeen(partCluster) == nil || s.Probe != nil && s.Probe.Blind()
	if s.notSeen(partNodes) == nil {
		d.Nodes = v.report.Nodes
	}
	var found []Cause
	for _, look := range slices.Concat(hostDetectors(), detectors()) {
		if lacks := slices.IndexFunc(look.needs, func(part string) bool { return s.notSeen(part) != nil }); lacks >= 0 {
			if s.notSeen(partCluster) == nil || strings.HasPrefix(look.needs[lacks], hostPart) { // else that says it all
				d.NotLooked[look.name] = look.needs[lacks]
			}
			continue
		}
		list := look.find(v)
		for i := range list {
			list[i] = v.remedy(list[i])
		}
		for _, c := range group(merged(list)) {
			if look.explainsAll || slices.Contains(managerWide(), c.ID) {
				c.explains = look.explains
			}
			if look.narrows != nil {
				c.explains = look.narrows(v, &c.Finding, c.explains)
			}
			found = append(found, c)
		}
	}
	for _, look := range more {
		found = append(found, group(merged(look(s)))...)
	}
	d.Causes = chain(unique(found))
	slices.SortStableFunc(
		d.Causes,
		func(a, b Cause) int { return a.Severity.Compare(b.Severity) },
	)
	return d
}

// merged makes one of what a detector finds of an ID about one object, such as the certificates of a machine: a diagnosis has one.
func merged(list []finding.Finding) []finding.Finding {
	var kept []finding.Finding
	at := map[string]int{}
	for _, f := range list {
		key := string(f.ID) + "\n" + f.Object
		i, known := at[key]
		if !known {
			at[key] = len(kept)
			kept = append(kept, f)
			continue
		}
		k := &kept[i]
		k.Message, k.Do, k.Next = with(k.Message, "; ", f.Message), with(k.Do, "; ", f.Do), with(k.Next, ", then: ", f.Next)
		if f.Severity.Compare(k.Severity) < 0 {
			k.Severity = f.Severity
		}
	}
	return kept
}

// with adds what a text does not say yet.
func with(text, between, more string) string {
	if text == "" || strings.Contains(text, more) {
		return cmp.Or(text, more)
	}
	return text + between + more
}

// varies is what differs where the reason is the same: times, and for how long.
var varies = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z?|\b(\d+h)?(\d+m)?\d+(\.\d+)?m?s\b`)

// group makes one of findings that say the same of several objects.
func group(list []finding.Finding) []Cause {
	var causes []Cause
	at := map[string]int{}
	for _, f := range list {
		f.Object, f.Message, f.Next = finding.Clean(f.Object), finding.Clean(f.Message), finding.Clean(f.Next)
		_, name, _ := strings.Cut(f.Object, "/")
		same := varies.ReplaceAllString(withoutName(f.Message, name), "*")
		key := string(f.ID) + "\n" + string(f.Severity) + "\n" + same
		if i, known := at[key]; known {
			causes[i].Objects = append(causes[i].Objects, f.Object)
			continue
		}
		at[key] = len(causes)
		causes = append(causes, Cause{Finding: f, Objects: []string{f.Object}})
	}
	return causes
}

// withoutName has a star where a text names the object, and not one whose name has this one in it.
func withoutName(text, name string) string {
	if name == "" {
		return text
	}
	var b strings.Builder
	for {
		at := strings.Index(text, name)
		if at < 0 {
			return b.String() + text
		}
		end := at + len(name)
		whole := (at == 0 || !inName(text[at-1])) && (end == len(text) || !inName(text[end]))
		b.WriteString(text[:at])
		if whole {
			b.WriteString("*")
		} else {
			b.WriteString(name)
		}
		text = text[end:]
	}
}

func inName(c byte) bool {
	return c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// unique leaves out a second finding of an ID about the same objects: the first detector has seen more.
func unique(list []Cause) []Cause {
	var kept []Cause
	for _, c := range list {
		if !slices.ContainsFunc(
			kept,
			func(k Cause) bool {
				return k.ID == c.ID && (k.Object == c.Object && len(c.Objects) == 1 || slices.Equal(k.Objects, c.Objects))
			},
		) {
			kept = append(kept, c)
		}
	}
	return kept
}

// chain puts each finding below the first that explains it. One that explains it in return stays above.
func chain(list []Cause) []Cause {
	above := make([]int, len(list))
	for i := range list {
		above[i] = slices.IndexFunc(list, func(c Cause) bool {
			return c.ID != list[i].ID && slices.Contains(c.explains, list[i].ID) && covers(&c, &list[i])
		})
	}
	root := func(i int) int { // a circle ends where it began
		for range list {
			if above[i] < 0 || above[i] == i {
				break
			}
			i = above[i]
		}
		return i
	}
	var roots []Cause
	place := map[int]int{}
	for i := range list {
		if above[i] < 0 || root(i) == i {
			place[i] = len(roots)
			roots = append(roots, list[i])
		}
	}
	for i := range list {
		if _, top := place[i]; !top {
			r := place[root(i)]
			roots[r].Consequences = append(roots[r].Consequences, list[i])
		}
	}
	return roots
}

// covers reports whether a cause is about as much as what it explains: one about Nodes explains what is wrong with these,
// and one that keeps the manager from its work, whatever waits for it. What is wrong with a file of a machine that is
// not the manager's explains its own Node only.
func covers(cause, effect *Cause) bool {
	if name, of := strings.CutPrefix(cause.Object, "Machine/"); of &&
		!strings.Contains(cause.Message, v1alpha1.Component) {
		return !slices.ContainsFunc(effect.Objects, func(o string) bool { return o != "Node/"+name && o != cause.Object })
	}
	if effect.ID == finding.BalancerPending && effect.Severity == finding.SeverityNote { // another program serves it
		return false
	}
	if !strings.HasPrefix(cause.Object, "Node/") || !strings.HasPrefix(effect.Object, "Node/") {
		return true
	}
	if slices.Contains(managerWide(), cause.ID) || slices.Contains(cause.explains, finding.NoLeader) {
		return true
	}
	return !slices.ContainsFunc(effect.Objects, func(o string) bool { return !slices.Contains(cause.Objects, o) })
}

// managerWide are causes that stand at a Node and are the manager's.
func managerWide() []finding.ID {
	return []finding.ID{
		finding.NoPod, finding.PodTerminating, finding.PodPending, finding.PodTerminated, finding.PodWaiting, finding.ImagePull,
		finding.CrashLoop, finding.NoLeader, finding.LeaderSilent, finding.NoNodeController, finding.Unauthorized,
		finding.MissingPermission, "D6", "D8", "D9", "D13",
	}
}
