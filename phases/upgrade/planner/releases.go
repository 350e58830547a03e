package planner

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
)

// otherReleases finds control planes on which ccmadm is of different releases, by their names. Of one whose release is
// empty nothing is known. Nil: all are of one release.
func otherReleases(byNode map[string]string) *finding.Finding {
	by := map[string][]string{}
	for _, node := range slices.Sorted(maps.Keys(byNode)) {
		if release := finding.Clean(byNode[node]); release != "" {
			by[release] = append(by[release], node)
		}
	}
	if len(by) < 2 {
		return nil
	}
	releases := slices.Collect(maps.Keys(by))
	slices.SortFunc(releases, func(a, b string) int { return cmp.Compare(by[a][0], by[b][0]) })
	var parts []string
	for _, release := range releases {
		parts = append(parts, release+" on "+strings.Join(by[release], ", "))
	}
	f := finding.OtherRelease.New("", "control planes have different releases of ccmadm: "+strings.Join(parts, "; "))
	return &f
}
