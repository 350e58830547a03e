package nodes

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// OtherReleases finds control planes on which ccmadm is of different releases, by their names. Of one whose release is
// empty nothing is known. Nil: all are of one release.
func OtherReleases(byNode map[string]string) *finding.Finding {
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

// releasesOf are what control planes say of the ccmadm that has worked on them last.
func releasesOf(list []corev1.Node) map[string]string {
	releases := map[string]string{}
	for i := range list {
		if _, is := list[i].Labels[v1alpha1.ControlPlaneLabel]; is {
			releases[list[i].Name] = list[i].Annotations[v1alpha1.ReleaseAnnotation]
		}
	}
	return releases
}
